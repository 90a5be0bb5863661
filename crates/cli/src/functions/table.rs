//! Tables, as `kubectl` prints them.

/// Lines of cells below headers, in columns as wide as they need to be.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headers[column].len()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..headers.len()).map(width).collect();
    let mut text = String::new();
    let headers: Vec<_> = headers.iter().map(|header| (*header).to_owned()).collect();
    for row in [&headers].into_iter().chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}   "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A cell for what may not be there.
pub(crate) fn or_dash(text: impl Into<String>) -> String {
    let text = text.into();
    if text.is_empty() { "-".to_owned() } else { text }
}
