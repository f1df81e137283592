//! A moment by two clocks.

use std::ops::Add;
use std::time::{Duration, Instant, SystemTime};

/// What two clocks show at one moment. Machines agree on the wall's, more or less, so stamps are
/// by it; but people and daemons set it, so how long something takes is measured by the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The clock on the wall.
    pub wall: SystemTime,
    /// A clock of this process that is never set.
    pub steady: Instant,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self {
            wall: SystemTime::now(),
            steady: Instant::now(),
        }
    }

    /// The time since another moment of this process; zero before it.
    pub(crate) fn since(self, other: Self) -> Duration {
        self.steady.saturating_duration_since(other.steady)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self {
            wall: self.wall + time,
            steady: self.steady + time,
        }
    }
}
