//! Tables for people, `--output table`: a heading, a rule, columns as wide as their content.
//! Not here: Apache's own layouts, which each tool prints by itself.
//! Pure. Kafka: no counterpart.

/// On which side a column's short values are filled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows under a heading.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table {
            columns: columns
                .iter()
                .map(|(name, align)| ((*name).to_owned(), *align))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// A row has one cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The table with a newline behind each line and no blanks at their ends.
    pub fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells
                .chain([self.columns[column].0.chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for ((cell, width), (_, align)) in cells.zip(&widths).zip(&self.columns) {
                let (width, fill) = (*width, width.saturating_sub(cell.chars().count()));
                debug_assert!(fill <= width);
                match align {
                    Align::Left => text.push_str(&format!("{cell}{:fill$}  ", "")),
                    Align::Right => text.push_str(&format!("{:fill$}{cell}  ", "")),
                }
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
            text
        };
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let mut out = line(&mut self.columns.iter().map(|(name, _)| name.as_str()));
        out.push_str(&line(&mut rules.iter().map(String::as_str)));
        for row in &self.rows {
            out.push_str(&line(&mut row.iter().map(String::as_str)));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = Table::new(&[("topic", Align::Left), ("partitions", Align::Right)]);
        table.row(vec!["orders-of-today".into(), "12".into()]);
        table.row(vec!["žluť".into(), "1".into()]);
        assert_eq!(
            table.render(),
            "topic            partitions
---------------  ----------
orders-of-today          12
žluť                      1
"
        );
    }
}
