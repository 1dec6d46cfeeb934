//! What the fuzz targets share: inputs as edits of a whole file, so that a target is seeded without
//! a corpus and reaches the checks behind the syntax.

/// `whole` with each {where u16, byte} of `edits` written over it.
pub fn edited(whole: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
        bytes[at] = edit[2];
    }
    bytes
}

/// The text of an input: the rest of it where its first byte is odd, else edits of `whole`. None
/// for bytes that are no text.
pub fn text(whole: &str, data: &[u8]) -> Option<String> {
    let (first, rest) = data.split_first()?;
    let bytes = if first % 2 == 1 { rest.to_vec() } else { edited(whole.as_bytes(), rest) };
    String::from_utf8(bytes).ok()
}
