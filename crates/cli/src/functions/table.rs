//! Tables, as `kubectl` prints them.

use ferroplane_offline::table::{TableLayout, print};

/// Spaces between columns.
const GAP: usize = 3;

/// Lines of cells below headers, in columns as wide as they need to be and, on a terminal, as there is room for. If there is not enough,
/// columns without any value are left out.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>], room: Option<usize>) -> String {
    let mut lines = lines(headers, rows);
    if room.is_some_and(|room| width(&lines) > room) {
        leave_out_empty_columns(&mut lines);
    }
    print(&lines, TableLayout { gap: GAP, room }, str::to_owned)
}

/// Whether the last column gets so many characters of the room if no other column is shortened, or all that it has.
pub(crate) fn has_room_for_last(
    headers: &[&str],
    rows: &[Vec<String>],
    room: Option<usize>,
    least: usize,
) -> bool {
    let mut lines = lines(headers, rows);
    let Some(room) = room.filter(|room| width(&lines) > *room) else { return true };
    leave_out_empty_columns(&mut lines);
    let whole = width(&lines);
    for line in &mut lines {
        line.pop();
    }
    whole <= room || width(&lines) + GAP + least <= room
}

/// The headers and the rows of a table.
fn lines(headers: &[&str], rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let headers: Vec<_> = headers.iter().map(|header| (*header).to_owned()).collect();
    std::iter::once(headers).chain(rows.iter().cloned()).collect()
}

/// The width of a table whose cells are not shortened.
fn width(lines: &[Vec<String>]) -> usize {
    let columns = lines.first().map_or(0, Vec::len);
    let widest = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let cells: usize = (0..columns).filter_map(widest).sum();
    cells + GAP * columns.saturating_sub(1)
}

fn leave_out_empty_columns(lines: &mut [Vec<String>]) {
    let columns = lines.first().map_or(0, Vec::len);
    let is_empty = |cell: &str| cell.is_empty() || cell == "-";
    for column in (0..columns).rev() {
        if lines.len() > 1 && lines.iter().skip(1).all(|line| is_empty(&line[column])) {
            for line in &mut *lines {
                line.remove(column);
            }
        }
    }
}

/// A cell for what may not be there.
pub(crate) fn or_dash(text: impl Into<String>) -> String {
    let text = text.into();
    if text.is_empty() { "-".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_column_has_room_or_not() {
        let rows = [["one", "", "12", "a long message"]].map(|row| row.map(str::to_owned).to_vec());
        let has_room =
            |room, least| has_room_for_last(&["NAME", "REMOVED", "COUNT", "MESSAGE"], &rows, room, least);
        assert!(has_room(None, 100));
        // 4 and 5 of the others, and two gaps: the empty column makes room.
        assert!(has_room(Some(29), 100), "the whole message fits");
        assert!(has_room(Some(25), 10));
        assert!(!has_room(Some(24), 10));
    }

    #[test]
    fn columns_without_a_value_make_room_for_others() {
        let rows = [["one", "-", "12", ""], ["two", "-", "3", ""]].map(|row| row.map(str::to_owned).to_vec());
        let printed = |room| table(&["NAME", "REMOVED", "COUNT", "MESSAGE"], &rows, room);
        let whole = "\
NAME   REMOVED   COUNT   MESSAGE
one    -         12
two    -         3
";
        assert_eq!((printed(None).as_str(), printed(Some(32)).as_str()), (whole, whole));
        assert_eq!(printed(Some(31)), "NAME   COUNT\none    12\ntwo    3\n");
    }
}
