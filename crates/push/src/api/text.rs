//! Filters and sums in text, as a command line or a program gives them.
//!
//! - Decimals are scaled integers: the parser brings both sides of a comparison or a sum to one
//!   scale, and a product has the sum of both scales.
//! - Words of a dictionary become codes; codes are sorted as the words are.
//!
//! Invariants
//! - A text that is not understood is refused with the place of the mistake. Checked by
//!   `mistakes_are_named_with_their_place`.

use super::set::About;
use crate::data::date;
use crate::error::{Error, Kind, Result};
use crate::function::{Compare, Expr, Test};
use crate::page::ColumnKind;

/// Deepest nesting of parentheses and negations.
const DEPTH_MAX: u32 = 32;
/// Deepest tree of an expression. Each part of a chain of sums or products is a level, and another
/// where it is scaled.
const TREE_MAX: u32 = 512;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// A name in double quotes.
    Name(String),
    /// Digits and how many of them stand behind the point.
    Number(i64, u8),
    Text(String),
    Sign(&'static str),
}

const SIGNS: [&str; 13] = ["<=", ">=", "<>", "!=", "<", ">", "=", "(", ")", "+", "-", "*", ","];

fn mistake(text: &str, at: usize, what: &str) -> Error {
    let shown = format!("`{text}`, column {}: {what}", at + 1);
    Error::new(Kind::Usage, shown)
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, len) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            (Token::Sign(sign), sign.len())
        } else if first == '\'' || first == '"' {
            let end = rest[1..].find(first).ok_or_else(|| mistake(text, at, "a quote is open"))?;
            let inner = rest[1..=end].to_owned();
            (if first == '"' { Token::Name(inner) } else { Token::Text(inner) }, end + 2)
        } else if first.is_ascii_digit() {
            let len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number = number(&rest[..len]).ok_or_else(|| mistake(text, at, "is no number"))?;
            (number, len)
        } else if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Word(rest[..len].to_owned()), len)
        } else {
            return Err(mistake(text, at, "is not understood"));
        };
        found.push((at, token));
        at += len;
    }
    Ok(found)
}

fn number(text: &str) -> Option<Token> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part}");
    Some(Token::Number(digits.parse().ok()?, u8::try_from(part.len()).ok()?))
}

/// An expression and what its integers mean.
#[derive(Clone, Debug, PartialEq)]
struct Typed {
    expr: Expr,
    meaning: Meaning,
    /// Levels of the expression's tree.
    depth: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    /// Scaled by ten to this power.
    Number(u8),
    Day,
    Byte,
    /// Codes of this column's words.
    Code(usize),
    /// A text that no column has given a meaning yet.
    Text(String),
}

struct Parser<'a> {
    about: &'a About,
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: u32,
}

/// A filter, such as `price > 10.50 and region in ('north', 'east')`.
///
/// # Errors
/// [`Kind::Usage`] naming the place of the mistake.
pub fn parse_test(about: &About, text: &str) -> Result<Test> {
    let mut parser = Parser::new(about, text)?;
    let test = parser.either()?;
    parser.end()?;
    Ok(test)
}

/// A sum's expression, such as `price * (1 - discount)`, and the digits behind its point.
///
/// # Errors
/// As [`parse_test`].
pub fn parse_expression(about: &About, text: &str) -> Result<(Expr, u8)> {
    let mut parser = Parser::new(about, text)?;
    let typed = parser.sum()?;
    parser.end()?;
    match typed.meaning {
        Meaning::Number(scale) => Ok((typed.expr, scale)),
        Meaning::Day | Meaning::Byte | Meaning::Code(_) | Meaning::Text(_) => {
            Err(mistake(text, 0, "is no number, so it has no sum"))
        }
    }
}

fn scaled(typed: Typed, from: u8, to: u8) -> Option<Expr> {
    let factor = 10i64.checked_pow(u32::from(to.checked_sub(from)?))?;
    Some(match (factor, typed.expr) {
        (1, expr) => expr,
        (_, Expr::Constant(v)) => Expr::Constant(v.checked_mul(factor)?),
        (_, expr) => Expr::Mul(Box::new(expr), Box::new(Expr::Constant(factor))),
    })
}

impl<'a> Parser<'a> {
    fn new(about: &'a About, text: &'a str) -> Result<Parser<'a>> {
        Ok(Parser { about, text, tokens: tokens(text)?, at: 0, depth: 0 })
    }

    fn here(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |t| t.0)
    }

    fn wrong<T>(&self, what: &str) -> Result<T> {
        Err(mistake(self.text, self.here(), what))
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.1)
    }

    fn end(&self) -> Result<()> {
        if self.peek().is_some() { self.wrong("the rest is not understood") } else { Ok(()) }
    }

    fn sign(&mut self, wanted: &[&'static str]) -> Option<&'static str> {
        let found = match self.peek() {
            Some(Token::Sign(s)) => wanted.iter().find(|w| *w == s).copied(),
            _ => None,
        };
        self.at += usize::from(found.is_some());
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<()> {
        match self.sign(&[sign]) {
            Some(_) => Ok(()),
            None => self.wrong(&format!("`{sign}` is missing")),
        }
    }

    fn word(&mut self, wanted: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Word(w)) if w.eq_ignore_ascii_case(wanted));
        self.at += usize::from(is);
        is
    }

    fn either(&mut self) -> Result<Test> {
        let mut tests = vec![self.both()?];
        while self.word("or") {
            tests.push(self.both()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::Or(tests) })
    }

    fn both(&mut self) -> Result<Test> {
        let mut tests = vec![self.one()?];
        while self.word("and") {
            tests.push(self.one()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::And(tests) })
    }

    fn one(&mut self) -> Result<Test> {
        if self.depth >= DEPTH_MAX {
            return self.wrong("is nested too deeply");
        }
        self.depth += 1;
        let test = self.one_inside();
        self.depth -= 1;
        test
    }

    fn one_inside(&mut self) -> Result<Test> {
        if self.word("not") {
            return Ok(Test::Not(Box::new(self.one()?)));
        }
        // A parenthesis opens a test or an expression; the one that parses further is meant.
        let start = self.at;
        let comparison = self.comparison();
        let (Err(first), Some(Token::Sign("("))) =
            (&comparison, self.tokens.get(start).map(|t| &t.1))
        else {
            return comparison;
        };
        let (reached, first) = (self.at, first.to_string());
        self.at = start + 1;
        let test = self.either().and_then(|test| self.expect(")").map(|()| test));
        match test {
            Err(_) if self.at <= reached => Err(Error::new(Kind::Usage, first)),
            other => other,
        }
    }

    fn comparison(&mut self) -> Result<Test> {
        let left = self.sum()?;
        if self.word("is") {
            return self.null(&left);
        }
        let negated = self.word("not");
        let test = if self.word("between") {
            let low = self.sum()?;
            if !self.word("and") {
                return self.wrong("`and` is missing after `between`");
            }
            let high = self.sum()?;
            let low = self.compare(Compare::GreaterEqual, left.clone(), low)?;
            Test::And(vec![low, self.compare(Compare::LessEqual, left, high)?])
        } else if self.word("in") {
            self.expect("(")?;
            let mut tests = Vec::new();
            loop {
                let value = self.sum()?;
                tests.push(self.compare(Compare::Equal, left.clone(), value)?);
                if self.sign(&[","]).is_none() {
                    break;
                }
            }
            self.expect(")")?;
            Test::Or(tests)
        } else if negated {
            return self.wrong("`between` or `in` is missing after `not`");
        } else {
            let Some(op) = self.sign(&["<=", ">=", "<>", "!=", "<", ">", "="]) else {
                return self.wrong("a comparison such as `>` is missing");
            };
            let right = self.sum()?;
            self.compare(comparison_of(op), left, right)?
        };
        Ok(if negated { Test::Not(Box::new(test)) } else { test })
    }

    fn null(&mut self, left: &Typed) -> Result<Test> {
        let negated = self.word("not");
        let Expr::Column(column) = left.expr else {
            return self.wrong("only a column can be compared with null");
        };
        if !self.word("null") {
            return self.wrong("`null` is missing after `is`");
        }
        let test = Test::IsNull(column);
        Ok(if negated { Test::Not(Box::new(test)) } else { test })
    }

    fn compare(&self, op: Compare, left: Typed, right: Typed) -> Result<Test> {
        use Meaning::{Byte, Code, Day, Number, Text};
        match (left.meaning.clone(), right.meaning.clone()) {
            (Number(a), Number(b)) => {
                let (a, b) = (scaled(left, a, a.max(b)), scaled(right, b, a.max(b)));
                match a.zip(b) {
                    Some((a, b)) => Ok(Test::Compare(op, a, b)),
                    None => self.wrong("a number has too many digits"),
                }
            }
            (Text(_), Day | Byte | Code(_)) => self.compare(mirror(op), right, left),
            (Day, Text(text)) => match date(&text) {
                Some(day) => Ok(Test::Compare(op, left.expr, Expr::Constant(day))),
                None => self.wrong("is no day, such as '2024-05-31'"),
            },
            (Byte, Text(text)) => match text.as_bytes() {
                &[byte] => Ok(Test::Compare(op, left.expr, Expr::Constant(byte.into()))),
                _ => self.wrong("is no single character"),
            },
            (Code(column), Text(text)) => Ok(self.coded(op, left.expr, column, &text)),
            (Day, Day) | (Byte, Byte) => Ok(Test::Compare(op, left.expr, right.expr)),
            (Code(a), Code(b)) if self.about.words(a) == self.about.words(b) => {
                Ok(Test::Compare(op, left.expr, right.expr))
            }
            (Number(_) | Day | Byte | Code(_) | Text(_), _) => {
                self.wrong("both sides must be numbers, days or texts of one column")
            }
        }
    }

    /// A comparison with a word that the dictionary may lack.
    fn coded(&self, op: Compare, code: Expr, column: usize, text: &str) -> Test {
        let words = self.about.words(column).unwrap_or_default();
        let below = words.partition_point(|w| w.as_str() < text) as i64;
        let upto = words.partition_point(|w| w.as_str() <= text) as i64;
        let (op, bound) = match op {
            Compare::Less => (Compare::Less, below),
            Compare::LessEqual => (Compare::Less, upto),
            Compare::Greater => (Compare::GreaterEqual, upto),
            Compare::GreaterEqual => (Compare::GreaterEqual, below),
            // A word that is not there has no code; -1 is no code either.
            Compare::Equal | Compare::NotEqual if below == upto => (op, -1),
            Compare::Equal | Compare::NotEqual => (op, below),
        };
        Test::Compare(op, code, Expr::Constant(bound))
    }

    fn sum(&mut self) -> Result<Typed> {
        let mut left = self.product()?;
        while let Some(sign) = self.sign(&["+", "-"]) {
            let right = self.product()?;
            let (Meaning::Number(a), Meaning::Number(b)) = (&left.meaning, &right.meaning) else {
                return self.wrong("only numbers are added");
            };
            let (a, b) = (*a, *b);
            let scale = a.max(b);
            let depth = self.deeper(&left, &right)?;
            let Some((x, y)) = scaled(left, a, scale).zip(scaled(right, b, scale)) else {
                return self.wrong("a number has too many digits");
            };
            let (x, y) = (Box::new(x), Box::new(y));
            let expr = if sign == "+" { Expr::Add(x, y) } else { Expr::Sub(x, y) };
            left = Typed { expr, meaning: Meaning::Number(scale), depth };
        }
        Ok(left)
    }

    /// Levels of the tree that joins two, one of which may be scaled.
    fn deeper(&self, a: &Typed, b: &Typed) -> Result<u32> {
        let depth = a.depth.max(b.depth) + 2;
        if depth > TREE_MAX { self.wrong("has too many parts: split it") } else { Ok(depth) }
    }

    fn product(&mut self) -> Result<Typed> {
        let mut left = self.factor()?;
        while self.sign(&["*"]).is_some() {
            let right = self.factor()?;
            let (Meaning::Number(a), Meaning::Number(b)) = (&left.meaning, &right.meaning) else {
                return self.wrong("only numbers are multiplied");
            };
            let meaning = Meaning::Number(a.saturating_add(*b));
            let depth = self.deeper(&left, &right)?;
            let expr = Expr::Mul(Box::new(left.expr), Box::new(right.expr));
            left = Typed { expr, meaning, depth };
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Typed> {
        if self.depth >= DEPTH_MAX {
            return self.wrong("is nested too deeply");
        }
        if self.sign(&["("]).is_some() {
            self.depth += 1;
            let inner = self.sum();
            self.depth -= 1;
            let inner = inner?;
            self.expect(")")?;
            return Ok(inner);
        }
        let negative = self.sign(&["-"]).is_some();
        let token = self.peek().cloned();
        let typed = match token {
            Some(Token::Number(v, scale)) => {
                let v = if negative { -v } else { v };
                Typed { expr: Expr::Constant(v), meaning: Meaning::Number(scale), depth: 1 }
            }
            _ if negative => return self.wrong("a number is missing after `-`"),
            Some(Token::Text(text)) => {
                Typed { expr: Expr::Constant(0), meaning: Meaning::Text(text), depth: 1 }
            }
            Some(Token::Word(name) | Token::Name(name)) => self.column(&name)?,
            Some(Token::Sign(_)) | None => return self.wrong("a column or a number is missing"),
        };
        self.at += 1;
        Ok(typed)
    }

    fn column(&self, name: &str) -> Result<Typed> {
        let n = self.about.schema.find(name);
        let n = n.map_err(|e| mistake(self.text, self.here(), e.context()))?;
        let meaning = match self.about.schema.columns[n].kind {
            ColumnKind::Int if self.about.words(n).is_some() => Meaning::Code(n),
            ColumnKind::Int => Meaning::Number(0),
            ColumnKind::Decimal(scale) => Meaning::Number(scale),
            ColumnKind::Date => Meaning::Day,
            ColumnKind::Char => Meaning::Byte,
            ColumnKind::List | ColumnKind::Text => {
                let what = format!("`{name}` is a list or has too many words: it has no values");
                return self.wrong(&what);
            }
        };
        Ok(Typed { expr: Expr::Column(n), meaning, depth: 1 })
    }
}

fn comparison_of(sign: &str) -> Compare {
    match sign {
        "<" => Compare::Less,
        "<=" => Compare::LessEqual,
        "=" => Compare::Equal,
        ">" => Compare::Greater,
        ">=" => Compare::GreaterEqual,
        _ => Compare::NotEqual,
    }
}

/// The comparison with its sides exchanged.
fn mirror(op: Compare) -> Compare {
    match op {
        Compare::Less => Compare::Greater,
        Compare::LessEqual => Compare::GreaterEqual,
        Compare::Equal => Compare::Equal,
        Compare::NotEqual => Compare::NotEqual,
        Compare::GreaterEqual => Compare::LessEqual,
        Compare::Greater => Compare::Less,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dictionary;
    use super::*;
    use crate::function::{Function, Output, Params, reference};
    use crate::page::{self, Column, Format, Schema, Value};

    fn about() -> About {
        let schema = Schema::new(vec![
            Column::decimal("price", 2, 0, 100_000),
            Column::int("qty", 0, 1000).or_null(),
            Column::date("day"),
            Column::char("flag", b'A', b'Z'),
            Column::int("region", 0, 2),
            Column::text("note"),
        ])
        .unwrap();
        let words = ["east", "north", "west"].map(str::to_owned).to_vec();
        let dictionaries = vec![Dictionary { column: 4, words }];
        About { dictionaries, ..About::new(&schema, Format::Text, 4096) }
    }

    fn passing(text: &str) -> Vec<i64> {
        let about = about();
        let filter = parse_test(&about, text).unwrap_or_else(|e| panic!("{e}"));
        let record = |n: i64| {
            let qty = if n == 3 { Value::Null } else { Value::Int(n) };
            let day = Value::Int(20_240_500 + n + 1);
            let flag = Value::Int(65 + n);
            vec![Value::Int(n * 550), qty, day, flag, Value::Int(n % 3), Value::Text(vec![])]
        };
        let page = page::write_all(&about.schema, about.format, 4096, (0..6).map(record)).unwrap();
        let function = Function::new(&about.schema, vec![], filter, Output::Rows(vec![0]));
        let answer = reference::answer(&function, &Params::default(), &page[0]).unwrap();
        let number = |r: &Vec<u8>| i64::from(u32::from_le_bytes(r[..4].try_into().unwrap())) / 550;
        let mut found: Vec<i64> = answer.rows.iter().map(number).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn filters_mean_what_they_say() {
        for (text, wanted) in [
            ("price > 10.50", vec![2, 3, 4, 5]),
            ("price > 11", vec![3, 4, 5]),
            ("price >= 11 and price <> 16.5", vec![2, 4, 5]),
            ("qty is null", vec![3]),
            ("qty is not null and not qty < 4", vec![4, 5]),
            ("not qty = 1", vec![0, 2, 4, 5]),
            ("day between '2024-05-02' and '2024-05-03'", vec![1, 2]),
            ("flag = 'C' or 'E' <= flag", vec![2, 4, 5]),
            ("region = 'north'", vec![1, 4]),
            ("region in ('north', 'west')", vec![1, 2, 4, 5]),
            ("region = 'south'", vec![]),
            ("region <> 'south'", vec![0, 1, 2, 3, 4, 5]),
            ("region > 'middle'", vec![1, 2, 4, 5]),
            ("region <= 'east'", vec![0, 3]),
            ("(price + 1) * 2 > 13 and (qty = 2 or qty = 5)", vec![2, 5]),
            ("((price - 0.5)) < \"qty\" * 5", vec![0]),
            ("qty not in (0, 1) and qty not between 4 and 9", vec![2]),
        ] {
            assert_eq!(passing(text), wanted, "{text}");
        }
    }

    #[test]
    fn sums_have_the_scale_of_their_parts() {
        let scale = |text| parse_expression(&about(), text).unwrap().1;
        assert_eq!(["qty", "price", "price * 0.5", "qty + 1.250"].map(scale), [0, 2, 3, 3]);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, wanted) in [
            ("prise > 1", "no column `prise`"),
            ("price >", "column 8: a column or a number is missing"),
            ("price > 1 und qty < 2", "column 11: the rest"),
            ("price > 'x'", "both sides"),
            ("day > 'x'", "is no day"),
            ("note = 'x'", "has too many words"),
            ("flag = 'AB'", "single character"),
            ("(price > 1", "`)` is missing"),
            ("price > 1 ; qty", "column 11: is not understood"),
            ("region = 'nor", "a quote is open"),
            ("price = 99999999999999999999", "is no number"),
            ("price + 1", "a comparison such as"),
        ] {
            let error = parse_test(&about(), text).unwrap_err();
            assert!(error.to_string().contains(wanted), "{text}: {error}");
            assert_eq!(error.kind(), Kind::Usage);
        }
        let deep = "(".repeat(10_000);
        assert!(parse_test(&about(), &deep).is_err());
        assert!(parse_test(&about(), &"not ".repeat(10_000)).is_err());
        for (sign, parts) in [("+", 100_000), ("*", 100_000), ("-", 300)] {
            let long = vec!["qty"; parts].join(sign);
            let error = parse_expression(&about(), &long).unwrap_err();
            assert!(error.to_string().contains("too many parts"), "{parts} parts");
        }
        assert!(parse_expression(&about(), &["qty"; 100].join(" - ")).is_ok());
        assert!(parse_expression(&about(), "day").is_err());
    }
}
