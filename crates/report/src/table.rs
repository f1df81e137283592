//! A table of words and numbers, for the terminal and for pages.

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name, with subscripts.
    pub name: String,
    /// Its unit; empty for none.
    pub unit: String,
    /// Whether its cells are numbers.
    pub numeric: bool,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// What it is sorted by, if not by its words.
    pub sort: Option<f64>,
    /// How a page shows it.
    pub show: Show,
}

/// How a page shows a cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Show {
    /// As its words.
    #[default]
    Words,
    /// As the way to another page.
    Link(String),
    /// With a bar in front: a share, from 0 to 1.
    Bar(f64),
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each as long as the columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Self {
            caption: caption.into(),
            columns,
            rows: Vec::new(),
        }
    }

    /// The table in columns of equal width, two spaces apart.
    pub fn text(&self) -> String {
        let header: Vec<String> = self.columns.iter().map(Column::heading).collect();
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let widths = cells.map(|cell| length(&cell.text));
            widths.chain([length(&header[at])]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).zip(&self.columns);
            let line: Vec<String> = padded
                .map(|((cell, width), column)| {
                    let space = " ".repeat(width.saturating_sub(length(cell)));
                    if column.numeric {
                        space + cell
                    } else {
                        cell.clone() + &space
                    }
                })
                .collect();
            format!("  {}", line.join("  "))
        };
        let mut out = String::new();
        if !self.caption.is_empty() {
            out += &format!("{}\n", crate::words::plain(&self.caption));
        }
        out += &trimmed_end(&line(&header));
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| cell.text.clone()).collect();
            out += &trimmed_end(&line(&cells));
        }
        out
    }
}

fn trimmed_end(line: &str) -> String {
    format!("{}\n", line.trim_end())
}

/// Characters that take room: all but combining marks.
fn length(text: &str) -> usize {
    let combining = |c: &char| ('\u{300}'..='\u{36f}').contains(c);
    text.chars().filter(|c| !combining(c)).count()
}

impl Column {
    /// A column of words.
    pub fn words(name: &str) -> Self {
        Self {
            name: name.into(),
            unit: String::new(),
            numeric: false,
        }
    }

    /// A column of numbers in a unit.
    pub fn numbers(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            numeric: true,
        }
    }

    /// Name and unit, without markup.
    pub fn heading(&self) -> String {
        let name = crate::words::plain(&self.name);
        if self.unit.is_empty() {
            name
        } else {
            format!("{name} ({})", self.unit)
        }
    }
}

impl Cell {
    /// Words.
    pub fn words(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            sort: None,
            show: Show::Words,
        }
    }

    /// A number as it is shown and as it is sorted.
    pub fn number(text: impl Into<String>, sort: f64) -> Self {
        Self {
            text: text.into(),
            sort: Some(sort).filter(|number| number.is_finite()),
            show: Show::Words,
        }
    }

    /// The same cell, shown otherwise.
    pub fn shown(self, show: Show) -> Self {
        Self { show, ..self }
    }

    /// What is not defined.
    pub fn absent() -> Self {
        Self::words(crate::number::ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(
            "caption",
            vec![Column::numbers("w", ""), Column::words("best ε\u{304}")],
        );
        table
            .rows
            .push(vec![Cell::number("8", 8.0), Cell::words("a")]);
        table
            .rows
            .push(vec![Cell::number("128", 128.0), Cell::words("b")]);
        assert_eq!(
            table.text(),
            "caption\n    w  best ε\u{304}\n    8  a\n  128  b\n"
        );
    }
}
