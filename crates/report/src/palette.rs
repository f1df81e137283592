//! The colours of figures, for white and for dark paper.
//!
//! What has an order (widths, learning rates) takes twelve steps of matplotlib's
//! *plasma*, which stays ordered in grey and for colour-blind readers; its pale end is
//! left off on white, its dark end on dark paper. What has none (two searches) takes
//! colours of Okabe and Ito. Every series has a marker of its own besides.
//!
//! A drawing carries the colours for white paper as attributes, and a class with each:
//! a page that shows it inline may override them by [`css`].

use std::fmt::Write;

/// Steps of the ordered colours.
pub const STEPS: u8 = 12;

/// What something is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ink {
    /// Words and numbers.
    Text,
    /// Words of second rank.
    Muted,
    /// Axes and their ticks.
    Axis,
    /// Grid lines.
    Grid,
    /// What figures are drawn on.
    Paper,
    /// One of ordered things, from 0 to [`STEPS`] − 1.
    Ordered(u8),
    /// One of unordered things; repeats after six.
    Unordered(u8),
}

const LIGHT: [&str; 12] = [
    "#0d0887", "#330597", "#5102a3", "#6e00a8", "#8707a6", "#a01a9c", "#b52f8c", "#c7427c",
    "#d7566c", "#e56b5d", "#f0804e", "#f9983e",
];
const DARK: [&str; 12] = [
    "#b86bd6", "#c062c0", "#cf5fae", "#d9609a", "#e36a86", "#eb7556", "#f3874a", "#f99a3e",
    "#fdac33", "#fdc229", "#fad824", "#f3f027",
];
/// Blue, vermilion, green, purple, orange, sky: Okabe and Ito.
const UNORDERED_LIGHT: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];
const UNORDERED_DARK: [&str; 6] = [
    "#56b4e9", "#ff8a3d", "#2fc79b", "#e29cc3", "#f0b429", "#8fd0f5",
];

impl Ink {
    /// The ink of one of `count` ordered things, spread over all steps.
    pub fn ordered(at: usize, count: usize) -> Self {
        let last = count.saturating_sub(1).max(1);
        let step = (usize::from(STEPS - 1) * at + last / 2) / last;
        Self::Ordered(u8::try_from(step).unwrap_or(STEPS).min(STEPS - 1))
    }

    /// The ink of one of several unordered things.
    pub fn unordered(at: usize) -> Self {
        Self::Unordered((at % UNORDERED_LIGHT.len()) as u8)
    }

    /// Its colour on white paper, as `#rrggbb`.
    pub fn light(self) -> &'static str {
        self.pick(
            ["#1b1f24", "#59636e", "#6e7781", "#e3e6ea", "#ffffff"],
            &LIGHT,
            &UNORDERED_LIGHT,
        )
    }

    /// Its colour on dark paper.
    pub fn dark(self) -> &'static str {
        self.pick(
            ["#e6e9ed", "#a3adb8", "#8b949e", "#2e343b", "#15191e"],
            &DARK,
            &UNORDERED_DARK,
        )
    }

    fn pick(
        self,
        plain: [&'static str; 5],
        ordered: &[&'static str],
        unordered: &[&'static str],
    ) -> &'static str {
        let [text, muted, axis, grid, paper] = plain;
        match self {
            Self::Text => text,
            Self::Muted => muted,
            Self::Axis => axis,
            Self::Grid => grid,
            Self::Paper => paper,
            Self::Ordered(step) => ordered[usize::from(step) % ordered.len()],
            Self::Unordered(at) => unordered[usize::from(at) % unordered.len()],
        }
    }

    /// Red, green and blue on white paper.
    pub fn rgb(self) -> [u8; 3] {
        let hex = self.light();
        std::array::from_fn(|at| {
            hex.get(1 + 2 * at..3 + 2 * at)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .unwrap_or(0)
        })
    }

    /// Its name in classes and CSS variables.
    pub fn name(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Muted => "muted".into(),
            Self::Axis => "axis".into(),
            Self::Grid => "grid".into(),
            Self::Paper => "paper".into(),
            Self::Ordered(step) => format!("o{step}"),
            Self::Unordered(at) => format!("u{at}"),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        [Self::Text, Self::Muted, Self::Axis, Self::Grid, Self::Paper]
            .into_iter()
            .chain((0..STEPS).map(Self::Ordered))
            .chain((0..UNORDERED_LIGHT.len() as u8).map(Self::Unordered))
    }
}

/// Style sheet that draws inline figures with the colours of the reader's scheme:
/// classes `f-…` fill, classes `k-…` stroke.
pub fn css() -> String {
    let variables = |colour: fn(Ink) -> &'static str| {
        Ink::all().fold(String::new(), |mut all, ink| {
            let _ = write!(all, "--{}:{};", ink.name(), colour(ink));
            all
        })
    };
    let mut css = format!(
        ":root{{{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n\
         @media print{{:root{{{}}}}}\n",
        variables(Ink::light),
        variables(Ink::dark),
        variables(Ink::light),
    );
    for ink in Ink::all() {
        let name = ink.name();
        let _ = writeln!(
            css,
            ".f-{name}{{fill:var(--{name})}}.k-{name}{{stroke:var(--{name})}}"
        );
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_inks_span_the_steps() {
        assert_eq!(Ink::ordered(0, 7), Ink::Ordered(0));
        assert_eq!(Ink::ordered(6, 7), Ink::Ordered(11));
        assert_eq!(Ink::ordered(0, 1), Ink::Ordered(0));
        let steps: Vec<Ink> = (0..12).map(|at| Ink::ordered(at, 12)).collect();
        assert!(steps.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn colours_by_hand() {
        assert_eq!(Ink::Unordered(0).rgb(), [0x00, 0x72, 0xb2]);
        assert_eq!(Ink::Paper.rgb(), [255, 255, 255]);
    }
}
