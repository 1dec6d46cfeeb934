//! The program that INIT carries: a function, its parameters, and an ELF file that may stand for
//! the compiled code. The bytes are those of `docs/design/push-api.md`.
//!
//! Invariants
//! - A program reads back from its bytes. Checked by `programs_come_back`.
//! - No bytes panic; lengths are checked before anything is made of them. Checked by
//!   `damaged_programs_are_refused`.
//! - A function that is compiled is short. Checked by `functions_of_any_length_are_not_compiled`.

use littoral_base::codec::{Reader, Writer};
use littoral_base::mutant;

use crate::error::{Error, Kind, Result};
use crate::function::{Bitmap, Compare, Expr, Function, Output, Params, Query, Test};
use crate::page::{Format, Schema};

/// Deepest tree of a filter or a sum.
const DEPTH_MAX: u32 = 64;

/// Most bytes of a function. Compiling keeps each part of an expression with all of its parts, and
/// the code of most longer functions would exceed the reach of its branches.
const FUNCTION_MAX: usize = 256 << 10;

/// What a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The function.
    pub function: Function,
    /// The format of its pages.
    pub format: Format,
    /// Its parameters.
    pub params: Params,
    /// An ELF file that the device runs in place of the compiled function.
    pub elf: Option<Vec<u8>>,
}

/// A number that has two bytes.
fn short(n: usize) -> u16 {
    debug_assert!(n <= usize::from(u16::MAX), "{n} does not fit two bytes");
    n as u16
}

/// A number that has one byte.
fn byte(n: usize) -> u8 {
    debug_assert!(n <= usize::from(u8::MAX), "{n} does not fit a byte");
    n as u8
}

fn put_expr(w: &mut Writer, e: &Expr) {
    match e {
        Expr::Column(c) => {
            w.u8(0).u16(short(*c));
        }
        Expr::Constant(v) => {
            w.u8(1).u64(*v as u64);
        }
        Expr::Param(p) => {
            w.u8(2).u16(short(*p));
        }
        Expr::Add(a, b) => put_pair(w, 3, a, b),
        Expr::Sub(a, b) => put_pair(w, 4, a, b),
        Expr::Mul(a, b) => put_pair(w, 5, a, b),
        Expr::Member(bitmap, a) => {
            w.u8(6).u8(byte(*bitmap));
            put_expr(w, a);
        }
    }
}

fn put_pair(w: &mut Writer, tag: u8, a: &Expr, b: &Expr) {
    w.u8(tag);
    put_expr(w, a);
    put_expr(w, b);
}

fn put_test(w: &mut Writer, test: &Test) {
    match test {
        Test::Compare(op, a, b) => {
            let op = Compare::ALL.iter().position(|c| c == op).expect("invariant: all are listed");
            w.u8(0).u8(op as u8);
            put_expr(w, a);
            put_expr(w, b);
        }
        Test::IsNull(c) => {
            w.u8(1).u16(short(*c));
        }
        Test::Probe(bitmap, e) => {
            w.u8(2).u8(byte(*bitmap));
            put_expr(w, e);
        }
        Test::Candidate(c) => {
            w.u8(3).u16(short(*c));
        }
        Test::Similar(c) => {
            w.u8(4).u16(short(*c));
        }
        Test::And(tests) => put_tests(w, 5, tests),
        Test::Or(tests) => put_tests(w, 6, tests),
        Test::Not(test) => {
            w.u8(7);
            put_test(w, test);
        }
    }
}

fn put_tests(w: &mut Writer, tag: u8, tests: &[Test]) {
    w.u8(tag).u16(short(tests.len()));
    tests.iter().for_each(|t| put_test(w, t));
}

fn put_columns(w: &mut Writer, columns: &[usize]) {
    w.u16(short(columns.len()));
    for &column in columns {
        w.u16(short(column));
    }
}

fn put_function(w: &mut Writer, function: &Function, format: Format) {
    let schema = function.schema.to_text();
    w.u8(format.code()).u32(function.slots_max as u32);
    w.u32(schema.len() as u32).raw(schema.as_bytes()).u16(short(function.params.len()));
    for (low, high) in &function.params {
        w.u64(*low as u64).u64(*high as u64);
    }
    put_test(w, &function.filter);
    match &function.output {
        Output::Aggregate { keys, sums } => {
            w.u8(0);
            put_columns(w, keys);
            w.u16(short(sums.len()));
            sums.iter().for_each(|e| put_expr(w, e));
        }
        Output::Rows(columns) => {
            w.u8(1);
            put_columns(w, columns);
        }
    }
}

fn put_params(w: &mut Writer, params: &Params) {
    w.u16(short(params.values.len()));
    for value in &params.values {
        w.u64(*value as u64);
    }
    w.u8(byte(params.bitmaps.len()));
    for bitmap in &params.bitmaps {
        w.u32(bitmap.words.len() as u32);
        for word in &bitmap.words {
            w.u64(*word);
        }
    }
    w.u8(params.query.is_some().into());
    if let Some(query) = &params.query {
        let (numerator, denominator) = query.threshold();
        w.u32(numerator).u32(denominator).u32(query.tokens().len() as u32);
        for token in query.tokens() {
            w.u32(*token);
        }
    }
}

struct Parser<'a>(Reader<'a>);

impl Parser<'_> {
    fn expr(&mut self, depth: u32) -> Option<Expr> {
        let depth = depth.checked_sub(1)?;
        let pair = |p: &mut Self| Some((Box::new(p.expr(depth)?), Box::new(p.expr(depth)?)));
        Some(match self.0.u8()? {
            0 => Expr::Column(self.0.u16()?.into()),
            1 => Expr::Constant(self.0.u64()? as i64),
            2 => Expr::Param(self.0.u16()?.into()),
            3 => pair(self).map(|(a, b)| Expr::Add(a, b))?,
            4 => pair(self).map(|(a, b)| Expr::Sub(a, b))?,
            5 => pair(self).map(|(a, b)| Expr::Mul(a, b))?,
            6 => Expr::Member(self.0.u8()?.into(), Box::new(self.expr(depth)?)),
            _ => return None,
        })
    }

    fn test(&mut self, depth: u32) -> Option<Test> {
        let depth = depth.checked_sub(1)?;
        Some(match self.0.u8()? {
            0 => {
                let op = *Compare::ALL.get(usize::from(self.0.u8()?))?;
                Test::Compare(op, self.expr(depth)?, self.expr(depth)?)
            }
            1 => Test::IsNull(self.0.u16()?.into()),
            2 => Test::Probe(self.0.u8()?.into(), self.expr(depth)?),
            3 => Test::Candidate(self.0.u16()?.into()),
            4 => Test::Similar(self.0.u16()?.into()),
            5 => Test::And(self.tests(depth)?),
            6 => Test::Or(self.tests(depth)?),
            7 => Test::Not(Box::new(self.test(depth)?)),
            _ => return None,
        })
    }

    fn tests(&mut self, depth: u32) -> Option<Vec<Test>> {
        (0..self.0.u16()?).map(|_| self.test(depth)).collect()
    }

    fn columns(&mut self) -> Option<Vec<usize>> {
        (0..self.0.u16()?).map(|_| self.0.u16().map(usize::from)).collect()
    }

    fn function(&mut self) -> Option<(Function, Format)> {
        let format = Format::from_code(self.0.u8()?)?;
        let slots_max = self.0.u32()? as usize;
        let len = self.0.u32()? as usize;
        let schema = std::str::from_utf8(self.0.bytes(len)?).ok()?;
        let schema = Schema::parse(schema).ok()?;
        let range = |p: &mut Self| Some((p.0.u64()? as i64, p.0.u64()? as i64));
        let params = (0..self.0.u16()?).map(|_| range(self)).collect::<Option<_>>()?;
        let filter = self.test(DEPTH_MAX)?;
        let output = match self.0.u8()? {
            0 => {
                let keys = self.columns()?;
                let sums = (0..self.0.u16()?).map(|_| self.expr(DEPTH_MAX)).collect::<Option<_>>();
                Output::Aggregate { keys, sums: sums? }
            }
            1 => Output::Rows(self.columns()?),
            _ => return None,
        };
        Some((Function { schema, params, filter, output, slots_max }, format))
    }

    fn params(&mut self) -> Option<Params> {
        let values = (0..self.0.u16()?).map(|_| Some(self.0.u64()? as i64)).collect::<Option<_>>();
        let mut bitmaps = Vec::new();
        for _ in 0..self.0.u8()? {
            let words = (0..self.0.u32()?).map(|_| self.0.u64()).collect::<Option<_>>()?;
            bitmaps.push(Bitmap { words });
        }
        let query = match self.0.u8()? {
            0 => None,
            1 => {
                let (numerator, denominator) = (self.0.u32()?, self.0.u32()?);
                let tokens = (0..self.0.u32()?).map(|_| self.0.u32()).collect::<Option<_>>()?;
                Some(Query::new(tokens, numerator, denominator).ok()?)
            }
            _ => return None,
        };
        Some(Params { values: values?, bitmaps, query })
    }
}

impl Program {
    /// The bytes that INIT carries.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut all = Writer::new();
        let mut part = Writer::new();
        put_function(&mut part, &self.function, self.format);
        all.u32(part.len() as u32).raw(&part.finish());
        let mut part = Writer::new();
        put_params(&mut part, &self.params);
        all.u32(part.len() as u32).raw(&part.finish());
        let elf = self.elf.as_deref().unwrap_or_default();
        all.u32(elf.len() as u32).raw(elf);
        all.finish()
    }

    /// The program of INIT's bytes.
    ///
    /// # Errors
    /// [`Kind::Usage`] naming the part that is none, [`Kind::Exhausted`] for a function of more
    /// than 256 KiB.
    pub fn parse(bytes: &[u8]) -> Result<Program> {
        let mut all = Reader::new(bytes);
        let mut part = |what: &str| {
            let found = all.u32().and_then(|len| all.bytes(len as usize));
            found.ok_or_else(|| Error::new(Kind::Usage, format!("INIT's {what} is cut off")))
        };
        let (function, params, elf) = (part("function")?, part("parameters")?, part("ELF file")?);
        if function.len() > FUNCTION_MAX && !mutant!("push_functions_of_any_length") {
            let what = format!("a function of {} bytes: {FUNCTION_MAX} at most", function.len());
            return Err(Error::new(Kind::Exhausted, what));
        }
        let whole = |p: &Parser<'_>| p.0.remaining() == 0;
        let bad = |what: &str| Error::new(Kind::Usage, format!("INIT's bytes are no {what}"));
        let mut parser = Parser(Reader::new(function));
        let found = parser.function().filter(|_| whole(&parser));
        let (function, format) = found.ok_or_else(|| bad("function"))?;
        let mut parser = Parser(Reader::new(params));
        let found = parser.params().filter(|_| whole(&parser));
        let params = found.ok_or_else(|| bad("parameters"))?;
        let elf = (!elf.is_empty()).then(|| elf.to_vec());
        Ok(Program { function, format, params, elf })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::lineitem_schema;
    use crate::query;

    fn programs() -> Vec<Program> {
        let bitmap = Bitmap::of([1, 77, 300]);
        let join = query::Query::join(Query::new(vec![1, 5, 9], 4, 5).unwrap()).unwrap();
        let queries = [
            query::Query::q1().unwrap(),
            query::Query::q6().unwrap(),
            query::Query::q14(bitmap).unwrap(),
            join,
        ];
        let mut all = Vec::new();
        for query in queries {
            for function in [query.whole, query.split, query.rest] {
                let (format, params) = (Format::Columns, query.params.clone());
                all.push(Program { function, format, params, elf: Some(vec![1, 2, 3]) });
            }
        }
        let not = Test::Not(Box::new(Test::Or(vec![
            Test::IsNull(0),
            Test::Probe(2, Expr::Add(Box::new(Expr::Param(0)), Box::new(Expr::Constant(-3)))),
        ])));
        let output = Output::Aggregate { keys: vec![8], sums: vec![] };
        let schema = lineitem_schema().unwrap();
        let function = Function::new(&schema, vec![(-7, 7)], not, output);
        let (format, params) = (Format::Text, Params::of(&[3]));
        all.push(Program { function, format, params, elf: None });
        all
    }

    #[test]
    fn programs_come_back() {
        for program in programs() {
            assert_eq!(Program::parse(&program.to_bytes()).unwrap(), program);
        }
    }

    #[test]
    fn functions_of_any_length_are_not_compiled() {
        let with = |tests: i64| {
            let mut program = programs().remove(0);
            let test = |n| Test::Compare(Compare::Less, Expr::Column(0), Expr::Constant(n));
            program.function.filter = Test::And((0..tests).map(test).collect());
            Program::parse(&program.to_bytes())
        };
        assert!(with(15_000).is_ok());
        let error = with(20_000).unwrap_err();
        assert_eq!(error.kind(), Kind::Exhausted);
        assert!(error.to_string().contains("262144 at most"), "{error}");
    }

    #[test]
    fn damaged_programs_are_refused() {
        for program in programs() {
            let good = program.to_bytes();
            for len in 0..good.len() {
                assert!(Program::parse(&good[..len]).is_err(), "{len} bytes of {}", good.len());
            }
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0xff;
                let _ = Program::parse(&bad);
            }
        }
        let mut deep = Test::IsNull(0);
        for _ in 0..100 {
            deep = Test::Not(Box::new(deep));
        }
        let mut program = programs().remove(0);
        program.function.filter = deep;
        assert!(Program::parse(&program.to_bytes()).is_err());
    }
}
