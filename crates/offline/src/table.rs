//! Tables of text: columns as wide as they need to be and, where there is an end to the room, no wider than fits.

/// Below this a column is not made narrower to make room: what is left would say nothing.
const NARROWEST: usize = 12;

/// How a table is laid out.
#[derive(Debug, Clone, Copy)]
pub struct TableLayout {
    /// Spaces between columns.
    pub gap: usize,
    /// How many columns of a terminal there are. None: nothing is shortened.
    pub room: Option<usize>,
}

/// The lines of a table. Every row has as many cells as the first.
pub fn print<R: AsRef<[String]>>(rows: &[R], layout: TableLayout, paint: impl Fn(&str) -> String) -> String {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width = |column: usize| rows.iter().map(|row| row.as_ref()[column].chars().count()).max();
    let mut widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    if let Some(room) = layout.room {
        fit(&mut widths, room.saturating_sub(layout.gap * columns.saturating_sub(1)));
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.as_ref().iter().zip(&widths) {
            let cell = shortened(cell, *width);
            line.push_str(&paint(&cell));
            line.push_str(&" ".repeat(width - cell.chars().count() + layout.gap));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A text of so many characters at most, of which the last says that there was more.
pub fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest.saturating_sub(1)).chain(['…']).collect()
}

/// Takes from the last column, which has messages, then from those in the middle, then from the first, which has names; always from
/// the widest of them, until the table fits or no column can be narrower.
fn fit(widths: &mut [usize], room: usize) {
    let last = widths.len().saturating_sub(1);
    for columns in [last..widths.len(), 1..last, 0..last.min(1)] {
        while widths.iter().sum::<usize>() > room {
            let columns = widths.get_mut(columns.clone()).into_iter().flatten();
            let widest = columns.filter(|width| **width > NARROWEST).max_by_key(|width| **width);
            let Some(widest) = widest else { break };
            *widest -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(room: Option<usize>) -> String {
        let rows = [
            ["NAME", "READY", "STATUS"],
            ["App/with-a-long-name", "False", "something that takes many words to say"],
        ];
        let rows = rows.map(|row| row.map(str::to_owned));
        print(&rows, TableLayout { gap: 3, room }, str::to_owned)
    }

    #[test]
    fn table_without_limits_is_as_wide_as_it_has_to_be() {
        let expected = "\
NAME                   READY   STATUS
App/with-a-long-name   False   something that takes many words to say
";
        assert_eq!(printed(None), expected);
        assert_eq!(printed(Some(69)), expected);
    }

    #[test]
    fn messages_make_room_before_names() {
        let expected = "\
NAME                   READY   STATUS
App/with-a-long-name   False   something that take…
";
        assert_eq!(printed(Some(51)), expected);
        let expected = "\
NAME             READY   STATUS
App/with-a-lo…   False   something t…
";
        assert_eq!(printed(Some(37)), expected);
        // Narrower it does not get.
        assert_eq!(printed(Some(1)).lines().nth(1), Some("App/with-a-…   False   something t…"));
        assert_eq!(print::<[String; 0]>(&[], TableLayout { gap: 3, room: None }, str::to_owned), "");
    }

    #[test]
    fn colours_take_no_room() {
        let rows = [[String::from("True"), String::from("x")], [String::from("False"), String::from("y")]];
        let text = print(&rows, TableLayout { gap: 1, room: Some(7) }, |cell| format!("<{cell}>"));
        assert_eq!(text, "<True>  <x>\n<False> <y>\n");
    }
}
