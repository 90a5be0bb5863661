//! Tables, as `kubectl` prints them.

use ferroplane_offline::table::{TableLayout, print};

/// Lines of cells below headers, in columns as wide as they need to be and, on a terminal, as there is room for.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>], room: Option<usize>) -> String {
    let headers = headers.iter().map(|header| (*header).to_owned()).collect::<Vec<_>>();
    let rows: Vec<_> = std::iter::once(&headers).chain(rows).collect();
    print(&rows, TableLayout { gap: 3, room }, str::to_owned)
}

/// A cell for what may not be there.
pub(crate) fn or_dash(text: impl Into<String>) -> String {
    let text = text.into();
    if text.is_empty() { "-".to_owned() } else { text }
}
