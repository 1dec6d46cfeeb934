//! Data sets: pages of one schema and what is known of all of them, in memory or in a file.
//!
//! Invariants
//! - A data set is replaced as a whole: until the header of the new one is written, the old one is
//!   read. Checked by `a_data_set_is_replaced_as_a_whole`.
//! - A header that was damaged is refused. Checked by `damaged_headers_are_refused`.
//! - A file is made by one data set at a time. Checked by
//!   `two_data_sets_of_one_file_are_not_made_at_a_time`.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use littoral_base::codec::{self, Reader, Writer};
use littoral_base::mutant;
use littoral_base::names::name_durably;
use littoral_device::region::RegionMut;
use littoral_device::try_lock;

use super::stored::Stored;
use crate::error::{Error, Kind, Result};
use crate::page::{self, Format, Record, Schema};

const MAGIC: &[u8; 8] = b"LITPUSH1";
/// Bytes in front of the text.
const HEAD: usize = 48;
/// Most bytes of the text.
const TEXT_MAX: usize = 64 << 20;
/// Greatest scale factor: tables that follow from it are made where a query needs them.
const SCALE_MAX: f64 = 1000.0;

/// The words of a column whose values are codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dictionary {
    /// The column.
    pub column: usize,
    /// Its words, sorted; a value is an index of them.
    pub words: Vec<String>,
}

/// What is known of a data set as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// The columns.
    pub schema: Schema,
    /// How records lie in its pages.
    pub format: Format,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages.
    pub pages: u64,
    /// Records.
    pub rows: u64,
    /// TPC-H scale factor; 0 for other data.
    pub scale: f64,
    /// Words of columns that hold codes.
    pub dictionaries: Vec<Dictionary>,
}

fn corrupt(what: &str) -> Error {
    Error::new(Kind::Corrupt, format!("header of a data set: {what}; load the data again"))
}

impl About {
    /// A data set without pages.
    pub fn new(schema: &Schema, format: Format, page_bytes: usize) -> About {
        let schema = schema.clone();
        About { schema, format, page_bytes, pages: 0, rows: 0, scale: 0.0, dictionaries: vec![] }
    }

    /// The words of a column, if its values are codes.
    pub fn words(&self, column: usize) -> Option<&[String]> {
        let found = self.dictionaries.iter().find(|d| d.column == column);
        found.map(|d| d.words.as_slice())
    }

    /// The header, padded to a multiple of the page's size.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Writer::new();
        let schema = self.schema.to_text();
        text.u32(schema.len() as u32).raw(schema.as_bytes()).u16(self.dictionaries.len() as u16);
        for dictionary in &self.dictionaries {
            text.u16(dictionary.column as u16).u32(dictionary.words.len() as u32);
            for word in &dictionary.words {
                text.short_bytes(word.as_bytes()).expect("invariant: words are short");
            }
        }
        let text = text.finish();
        let mut head = Writer::new();
        head.raw(MAGIC).u32(self.page_bytes as u32).u32(self.format.code().into());
        head.u64(self.pages).u64(self.rows).u64(self.scale.to_bits()).u32(text.len() as u32);
        let crc = codec::crc_append(codec::crc(&head.clone().finish()), &text);
        head.u32(crc).raw(&text);
        let len = head.len().next_multiple_of(self.page_bytes);
        head.pad_to(len);
        head.finish()
    }

    /// Bytes of the header that begins with `head`, which has at least 48 bytes.
    fn header_len(head: &[u8]) -> Result<usize> {
        if head.len() < HEAD || &head[..8] != MAGIC {
            return Err(corrupt("the magic LITPUSH1 is missing"));
        }
        let (page, text) = (page::u32_at(head, 8) as usize, page::u32_at(head, 40) as usize);
        if !page.is_power_of_two() || !(4096..=65536).contains(&page) || text > TEXT_MAX {
            return Err(corrupt("sizes of pages or text make no sense"));
        }
        Ok((HEAD + text).next_multiple_of(page))
    }

    /// The header that [`About::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for one that does not verify.
    pub fn parse(bytes: &[u8]) -> Result<About> {
        let len = About::header_len(bytes)?;
        let text = bytes.get(HEAD..HEAD + page::u32_at(bytes, 40) as usize);
        let text = text.filter(|_| bytes.len() >= len).ok_or_else(|| corrupt("it is cut off"))?;
        if codec::crc_append(codec::crc(&bytes[..44]), text) != page::u32_at(bytes, 44) {
            return Err(corrupt("its checksum does not hold"));
        }
        let mut head = Reader::new(&bytes[8..44]);
        let about = About::fields(&mut head, &mut Reader::new(text));
        about.ok_or_else(|| corrupt("its text ends inside a field"))?
    }

    fn fields(head: &mut Reader<'_>, text: &mut Reader<'_>) -> Option<Result<About>> {
        let (page_bytes, format) = (head.u32()? as usize, head.u32()?);
        let (pages, rows, scale) = (head.u64()?, head.u64()?, f64::from_bits(head.u64()?));
        let len = text.u32()? as usize;
        let schema = String::from_utf8(text.bytes(len)?.to_vec()).ok()?;
        let mut dictionaries = Vec::new();
        for _ in 0..text.u16()? {
            let (column, count) = (usize::from(text.u16()?), text.u32()?);
            let word = |_| String::from_utf8(text.short_bytes()?.to_vec()).ok();
            let words = (0..count).map(word).collect::<Option<Vec<_>>>()?;
            dictionaries.push(Dictionary { column, words });
        }
        let format = u8::try_from(format).ok().and_then(Format::from_code);
        let format = format.ok_or_else(|| corrupt("its format is unknown"));
        if !(0.0..=SCALE_MAX).contains(&scale) && !mutant!("push_scale_of_any_size") {
            return Some(Err(corrupt("its scale factor makes no sense")));
        }
        Some(Schema::parse(&schema).and_then(|schema| {
            let format = format?;
            Ok(About { schema, format, page_bytes, pages, rows, scale, dictionaries })
        }))
    }
}

#[derive(Debug)]
enum Store {
    Memory(Vec<Arc<Stored>>),
    /// A file, and where its pages begin.
    File(File, u64),
}

/// Pages of one schema.
#[derive(Debug)]
pub struct DataSet {
    about: About,
    store: Store,
    /// The file that the data set lies in.
    path: Option<PathBuf>,
    draft: Option<Box<DataSet>>,
}

fn io(what: &str, path: Option<&Path>) -> impl Fn(std::io::Error) -> Error {
    let place = path.map_or_else(|| "memory".to_owned(), |p| p.display().to_string());
    let what = what.to_owned();
    move |e| Error::with_source(Kind::Io, format!("{place}: cannot {what}"), e)
}

/// The empty file of a new data set, locked, as two data sets of this process would make it under
/// one name.
fn draft_file(path: &Path) -> Result<File> {
    let failed = io("make the file", Some(path));
    let open = File::options().write(true).create(true).truncate(false).open(path);
    let file = open.map_err(&failed)?;
    match try_lock(&file, true) {
        Err(e) if e.kind() == ErrorKind::WouldBlock => {
            let what = format!("{}: another store to this data set is under way", path.display());
            return Err(Error::with_source(Kind::Io, what, e));
        }
        // A file system without locks has the file none the less.
        Ok(()) | Err(_) => {}
    }
    // The other store may have ended before the lock: then the file has the data set's name.
    let place = |m: std::fs::Metadata| (m.dev(), m.ino());
    let own = file.metadata().map(place).map_err(&failed)?;
    if std::fs::symlink_metadata(path).map(place).map_err(&failed)? != own {
        let what = format!("{}: another store has just ended; store again", path.display());
        return Err(Error::new(Kind::Io, what));
    }
    file.set_len(0).map_err(&failed)?;
    Ok(file)
}

/// Packs records into pages and hands each on; the number of pages and records.
///
/// # Errors
/// As [`page::Writer::push`] and what `put` returns.
pub fn records_of(
    about: &About,
    records: impl IntoIterator<Item = Result<Record>>,
    mut put: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<(u64, u64)> {
    let mut writer = page::Writer::new(&about.schema, about.format, about.page_bytes)?;
    let (mut pages, mut rows) = (0, 0);
    let mut one = |page: Option<Vec<u8>>| {
        let Some(page) = page else { return Ok(()) };
        pages += 1;
        put(pages - 1, &page)
    };
    for record in records {
        one(writer.push(&record?)?)?;
        rows += 1;
    }
    one(writer.take())?;
    Ok((pages, rows))
}

impl DataSet {
    /// An empty data set in memory.
    pub fn memory(about: &About) -> DataSet {
        let about = About { pages: 0, rows: 0, ..about.clone() };
        DataSet { about, store: Store::Memory(Vec::new()), path: None, draft: None }
    }

    /// A data set in memory of these pages.
    pub fn of_pages(about: &About, pages: Vec<Vec<u8>>) -> DataSet {
        let about = About { pages: pages.len() as u64, ..about.clone() };
        let store = Store::Memory(pages.into_iter().map(Stored::new).collect());
        DataSet { about, store, path: None, draft: None }
    }

    /// A data set in memory of these records.
    ///
    /// # Errors
    /// As [`records_of`].
    pub fn of_records(
        about: &About,
        records: impl IntoIterator<Item = Result<Record>>,
    ) -> Result<DataSet> {
        let mut pages = Vec::new();
        let (count, rows) = records_of(about, records, |_, page| {
            pages.push(page.to_vec());
            Ok(())
        })?;
        let about = About { pages: count, rows, ..about.clone() };
        Ok(DataSet::of_pages(&about, pages))
    }

    /// Whether the file at `path` begins as a data set does, whatever follows.
    pub fn is_at(path: &Path) -> bool {
        let mut begin = [0; MAGIC.len()];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut begin, 0));
        read.is_ok() && begin == *MAGIC
    }

    /// The data set in a file.
    ///
    /// # Errors
    /// [`Kind::Io`] when it cannot be read, [`Kind::Corrupt`] when it is none or is cut off.
    pub fn open(path: &Path) -> Result<DataSet> {
        let file = File::open(path).map_err(io("open the data set", Some(path)))?;
        let mut head = vec![0; HEAD];
        let placed = |e: Error| e.in_context(path.display()).at_path(path);
        let short = |e: std::io::Error| placed(corrupt(&e.to_string()));
        file.read_exact_at(&mut head, 0).map_err(short)?;
        let len = About::header_len(&head).map_err(placed)?;
        head.resize(len, 0);
        file.read_exact_at(&mut head, 0).map_err(short)?;
        let about = About::parse(&head).map_err(placed)?;
        let wanted = about.pages.checked_mul(about.page_bytes as u64);
        let wanted = wanted.and_then(|b| b.checked_add(len as u64));
        let found = file.metadata().map_err(io("look at the data set", Some(path)))?.len();
        if wanted.is_none_or(|w| found < w) {
            return Err(placed(corrupt("the file is shorter than its pages")));
        }
        let store = Store::File(file, len as u64);
        Ok(DataSet { about, store, path: Some(path.to_owned()), draft: None })
    }

    /// The data set in a file, read once into memory: later changes of the file are not seen. Its
    /// pages lie together, in huge pages of the system where it has them. A data set that replaces
    /// it stays in memory too.
    ///
    /// # Errors
    /// As [`DataSet::open`]; [`Kind::Io`] too when there is no memory for it.
    pub fn load(path: &Path) -> Result<DataSet> {
        let mut set = DataSet::open(path)?;
        let Store::File(file, start) = &set.store else {
            unreachable!("invariant: an opened data set is a file")
        };
        let bytes = set.about.page_bytes;
        let whole = usize::try_from(set.about.pages).ok().and_then(|n| n.checked_mul(bytes));
        let no_room = || Error::new(Kind::Io, format!("{}: no memory for it", path.display()));
        let whole = whole.ok_or_else(no_room)?;
        let mut region = RegionMut::zeroed(whole).map_err(|_| no_room())?;
        file.read_exact_at(&mut region, *start).map_err(io("read the pages", Some(path)))?;
        let region = region.freeze();
        let pages = (0..whole).step_by(bytes).map(|at| Stored::part(&region, at..at + bytes));
        (set.store, set.path) = (Store::Memory(pages.collect()), None);
        Ok(set)
    }

    /// An empty data set whose file is made when a header is written.
    pub fn absent(path: &Path, about: &About) -> DataSet {
        let mut set = DataSet::memory(about);
        set.path = Some(path.to_owned());
        set
    }

    /// What is known of it.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Reads a page: a page in memory is shared, a page of a file is read anew.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a page that does not exist, [`Kind::Io`] when it cannot be read.
    pub fn read(&self, page: u64) -> Result<Arc<Stored>> {
        if page >= self.about.pages {
            let what = format!("page {page} of a data set of {} pages", self.about.pages);
            return Err(Error::new(Kind::Usage, what));
        }
        match &self.store {
            Store::Memory(pages) => Ok(Arc::clone(&pages[page as usize])),
            Store::File(file, start) => {
                let mut bytes = vec![0; self.about.page_bytes];
                let at = start + page * self.about.page_bytes as u64;
                let read = file.read_exact_at(&mut bytes, at);
                read.map_err(io(&format!("read page {page}"), self.path.as_deref()))?;
                Ok(Stored::new(bytes))
            }
        }
    }

    /// A number of the contents: another data set has another one, but for one in 2^32. Of a file
    /// it follows from what the system says of it, which another file and every change alter, so
    /// that no page is read; of pages in memory from their checksums.
    pub(super) fn contents_number(&self) -> u32 {
        match &self.store {
            Store::Memory(pages) => {
                let place = page::CHECKSUM_AT..page::HEADER_LEN;
                let checksums = pages.iter().filter_map(|page| page.bytes().get(place.clone()));
                checksums.fold(0, codec::crc_append)
            }
            Store::File(file, _) => file.metadata().map_or(0, |m| {
                let changed = [m.ctime() as u64, m.ctime_nsec() as u64];
                let words = [m.dev(), m.ino(), m.size(), changed[0], changed[1]];
                codec::crc(&words.map(u64::to_le_bytes).concat())
            }),
        }
    }

    /// All pages, in memory.
    ///
    /// # Errors
    /// As [`DataSet::read`].
    pub fn pages(&self) -> Result<Vec<Vec<u8>>> {
        (0..self.about.pages).map(|page| self.read(page).map(|p| p.bytes().to_vec())).collect()
    }

    /// The file in which this process makes the data set at `path` before it gets that name; a
    /// process that ends in between removes it. `None` for a path that names no file.
    pub fn draft_path(path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?.to_string_lossy();
        Some(path.with_file_name(format!(".{name}.{}.tmp", std::process::id())))
    }

    /// Begins a new data set beside this one; one that was begun before is given up.
    ///
    /// # Errors
    /// [`Kind::Io`] when its file cannot be made, also because another data set of this process is
    /// making it.
    pub fn begin(&mut self, about: &About) -> Result<()> {
        self.abandon();
        let mut draft = DataSet::memory(about);
        if let Some(path) = self.path.as_deref().and_then(DataSet::draft_path) {
            let file = draft_file(&path)?;
            draft.store = Store::File(file, about.to_bytes().len() as u64);
            draft.path = Some(path);
        }
        self.draft = Some(Box::new(draft));
        Ok(())
    }

    /// Whether a new data set has been begun and not committed.
    pub fn has_draft(&self) -> bool {
        self.draft.is_some()
    }

    /// Bytes of memory that the pages of the new data set take; none where they lie in a file.
    pub(super) fn draft_memory(&self) -> Option<u64> {
        let draft = self.draft.as_deref()?;
        match &draft.store {
            Store::Memory(pages) => Some(pages.len() as u64 * draft.about.page_bytes as u64),
            Store::File(..) => None,
        }
    }

    /// Gives up the new data set; its file is removed, or stays hidden where that fails.
    pub fn abandon(&mut self) {
        let draft = self.draft.take();
        // Removed while it is locked, so that it is not another data set's.
        if let Some(path) = draft.as_ref().and_then(|draft| draft.path.as_ref()) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Writes a page of the new data set.
    ///
    /// # Errors
    /// [`Kind::Usage`] without [`DataSet::begin`] or out of order, [`Kind::Io`] when it fails.
    pub fn put(&mut self, page: u64, bytes: &[u8]) -> Result<()> {
        let usage = |what: String| Err(Error::new(Kind::Usage, what));
        let Some(draft) = &mut self.draft else {
            return usage(format!("page {page} was written before a header"));
        };
        if page != draft.about.pages || bytes.len() != draft.about.page_bytes {
            let (pages, len) = (draft.about.pages, bytes.len());
            return usage(format!("page {page} of {len} bytes was written behind {pages} pages"));
        }
        draft.about.pages += 1;
        match &mut draft.store {
            Store::Memory(pages) => pages.push(Stored::new(bytes.to_vec())),
            Store::File(file, start) => {
                let written = file.write_all_at(bytes, *start + page * bytes.len() as u64);
                written.map_err(io(&format!("write page {page}"), draft.path.as_deref()))?;
            }
        }
        Ok(())
    }

    /// Replaces this data set by the new one, whose header this is.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a header that does not count the pages written, [`Kind::Io`].
    pub fn commit(&mut self, about: &About) -> Result<()> {
        let done = self.publish(about);
        // A draft that is refused or cannot be written is gone, with its file.
        self.abandon();
        done
    }

    fn publish(&mut self, about: &About) -> Result<()> {
        let Some(draft) = &mut self.draft else {
            return Err(Error::new(Kind::Usage, "a header was written before its pages"));
        };
        let counts = draft.about.pages == about.pages && draft.about.schema == about.schema;
        if !counts || draft.about.to_bytes().len() != about.to_bytes().len() {
            let what = format!("the header counts {} pages", about.pages);
            let what = format!("{what}, {} were written; store again", draft.about.pages);
            return Err(Error::new(Kind::Usage, what));
        }
        draft.about = about.clone();
        if let (Store::File(file, _), Some(from)) = (&draft.store, draft.path.clone()) {
            let to = self.path.clone().expect("invariant: a draft's file stands beside another");
            let written = file.write_all_at(&about.to_bytes(), 0).and_then(|()| file.sync_all());
            written.map_err(io("write the header", Some(&from)))?;
            std::fs::rename(&from, &to).map_err(io("rename the data set", Some(&to)))?;
            name_durably(&to).map_err(io("flush the folder", Some(&to)))?;
            // The draft's file has the data set's name now.
            draft.path = None;
            *self = DataSet::open(&to)?;
        } else if let Some(draft) = self.draft.take() {
            *self = *draft;
        }
        Ok(())
    }
}

impl Drop for DataSet {
    fn drop(&mut self) {
        self.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Column, Value};

    fn about() -> About {
        let schema = Schema::new(vec![Column::int("a", 0, 9), Column::int("town", 0, 1)]).unwrap();
        let words = vec!["bergen".to_owned(), "oslo".to_owned()];
        let dictionaries = vec![Dictionary { column: 1, words }];
        About { dictionaries, ..About::new(&schema, Format::Columns, 4096) }
    }

    fn fill(set: &mut DataSet, rows: i64) {
        let about = about();
        set.begin(&about).unwrap();
        let record = |n: i64| Ok(vec![Value::Int(n % 10), Value::Int(n % 2)]);
        let (pages, rows) =
            records_of(&about, (0..rows).map(record), |n, page| set.put(n, page)).unwrap();
        set.commit(&About { pages, rows, ..about }).unwrap();
    }

    #[test]
    fn a_data_set_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.set");
        let mut set = DataSet::absent(&path, &about());
        fill(&mut set, 5000);
        assert_eq!((set.about().rows, DataSet::open(&path).unwrap().about().rows), (5000, 5000));
        set.begin(&about()).unwrap();
        set.put(0, &[0; 4096]).unwrap();
        assert!(set.put(2, &[0; 4096]).is_err(), "out of order");
        assert_eq!(DataSet::open(&path).unwrap().about(), set.about(), "the old one is read");
        drop(set);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        let mut set = DataSet::open(&path).unwrap();
        fill(&mut set, 20);
        let again = DataSet::open(&path).unwrap();
        assert_eq!((again.about().rows, again.about().words(1).unwrap()[1].as_str()), (20, "oslo"));
        assert!(again.read(0).unwrap().header(&again.about().schema).is_some());
        assert!(again.read(1).is_err());
    }

    #[test]
    fn the_number_of_a_data_set_is_that_of_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.set");
        let mut stored = DataSet::absent(&path, &about());
        fill(&mut stored, 200);
        let number = || DataSet::open(&path).unwrap().contents_number();
        let first = number();
        assert_eq!(number(), first, "a server that returns has the same data");
        fill(&mut stored, 200);
        assert_ne!(number(), first, "the file is another one");
        let in_memory = |n| {
            let mut set = DataSet::absent(&path, &about());
            let pages = [1, n].map(|n| Stored::new(vec![n; 64]));
            set.store = Store::Memory(pages.to_vec());
            set.contents_number()
        };
        assert_eq!(in_memory(2), in_memory(2));
        assert_ne!(in_memory(2), in_memory(3));
    }

    #[test]
    fn two_data_sets_of_one_file_are_not_made_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.set");
        let mut sets = [DataSet::absent(&path, &about()), DataSet::absent(&path, &about())];
        sets[0].begin(&about()).unwrap();
        let error = sets[1].begin(&about()).unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        assert!(error.to_string().contains("under way"), "{error}");
        fill(&mut sets[0], 200);
        fill(&mut sets[1], 5000);
        let mut found = DataSet::open(&path).unwrap();
        assert_eq!(found.about().rows, 5000);
        assert!(found.read(0).unwrap().header(&about().schema).is_some());
        // One that is given up leaves the name to the other.
        sets[0].begin(&about()).unwrap();
        sets[0].abandon();
        fill(&mut found, 20);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_commit_that_fails_leaves_no_file_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.set");
        let mut set = DataSet::absent(&path, &about());
        fill(&mut set, 5000);
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        set.begin(&about()).unwrap();
        set.put(0, &[0; 4096]).unwrap();
        assert_eq!(names(), 2, "the data set and a draft");
        let wrong = About { pages: 2, rows: 9, ..about() };
        assert_eq!(set.commit(&wrong).unwrap_err().kind(), Kind::Usage);
        assert_eq!(names(), 1, "a header that counts other pages");
        // A folder stands in the way of the new file.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir_all(path.join("inner")).unwrap();
        set.begin(&about()).unwrap();
        set.put(0, &[0; 4096]).unwrap();
        let whole = About { pages: 1, rows: 9, ..about() };
        assert_eq!(set.commit(&whole).unwrap_err().kind(), Kind::Io);
        assert_eq!(names(), 1, "a name that is taken");
    }

    #[test]
    fn a_page_in_memory_is_verified_once_and_one_of_a_file_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.set");
        let mut set = DataSet::absent(&path, &about());
        fill(&mut set, 5000);
        let schema = &about().schema;
        let memory = DataSet::of_pages(set.about(), set.pages().unwrap());
        let (first, again) = (memory.read(0).unwrap(), memory.read(0).unwrap());
        assert!(Arc::ptr_eq(&first, &again), "one page, with what its check found");
        assert_eq!(first.header(schema).map(|h| h.number), Some(0));
        let loaded = DataSet::load(&path).unwrap();
        assert_eq!((loaded.about(), loaded.pages().unwrap()), (set.about(), set.pages().unwrap()));
        assert!(loaded.read(set.about().pages).is_err());
        let stored = set.read(0).unwrap();
        assert!(stored.header(schema).is_some() && !Arc::ptr_eq(&stored, &set.read(0).unwrap()));
        let at = std::fs::metadata(&path).unwrap().len() - set.about().pages * 4096 + 100;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xff, 0, 0xff, 0], at).unwrap();
        assert_eq!(set.read(0).unwrap().header(schema), None, "the file changed under the device");
        assert!(memory.read(0).unwrap().header(schema).is_some());
        assert!(loaded.read(0).unwrap().header(schema).is_some(), "it was read before");
        assert_eq!(DataSet::load(&folder.path().join("none")).unwrap_err().kind(), Kind::Io);
    }

    /// Its checksum holds, and a query would make parts until memory ends.
    #[test]
    fn a_header_of_a_scale_without_bound_is_refused() {
        for scale in [f64::NAN, f64::INFINITY, 1e300, -1.0, 1001.0] {
            let error = About::parse(&About { scale, ..about() }.to_bytes()).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.to_string().contains("scale factor"), "{error}");
        }
        for scale in [0.0, 0.0001, 1000.0] {
            let header = About { scale, ..about() };
            assert_eq!(About::parse(&header.to_bytes()).unwrap(), header);
        }
    }

    #[test]
    fn damaged_headers_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.set");
        fill(&mut DataSet::absent(&path, &about()), 5000);
        let good = std::fs::read(&path).unwrap();
        let is_refused = |what: &str| {
            let e = DataSet::open(&path).unwrap_err();
            assert_eq!((e.kind(), e.place().path.as_ref()), (Kind::Corrupt, Some(&path)), "{what}");
        };
        for at in 0..HEAD + page::u32_at(&good, 40) as usize {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            is_refused(&format!("byte {at}"));
        }
        for len in [0, 20, 48, 4096, good.len() - 1] {
            std::fs::write(&path, &good[..len]).unwrap();
            is_refused(&format!("{len} bytes"));
        }
    }
}
