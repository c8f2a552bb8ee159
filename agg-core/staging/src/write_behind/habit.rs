//! Decides whether writes wait, by how often other ranks had to ask for waiting bytes.

/// The most calls that do not wait after other ranks have asked.
const LONGEST: u32 = 255;

/// How often ranks had to ask for waiting bytes; the same on all ranks.
#[derive(Debug, Default)]
pub struct Habit {
    /// Calls that do not wait now, and after the next time that ranks ask.
    skipped: u32,
    next: u32,
}

impl Habit {
    /// Whether a call shall not wait, `asked` being whether ranks asked since the last one.
    pub fn skips(&mut self, asked: bool) -> bool {
        if asked {
            self.skipped = self.next;
            self.next = (2 * self.next + 1).min(LONGEST);
        }
        let skips = self.skipped > 0;
        match skips {
            true => self.skipped -= 1,
            false if !asked => self.next = self.next.saturating_sub(1),
            false => {}
        }
        skips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_often_ranks_ask_the_more_calls_do_not_wait() {
        let mut habit = Habit::default();
        assert!(!habit.skips(false) && !habit.skips(true), "once is no habit");
        let skipped = |habit: &mut Habit| {
            let first = habit.skips(true);
            u32::from(first) + (0..1000).take_while(|_| habit.skips(false)).count() as u32
        };
        assert_eq!([(); 3].map(|()| skipped(&mut habit)), [1, 2, 4]);
        assert_eq!((0..300).filter(|_| habit.skips(false)).count(), 0);
        assert_eq!(skipped(&mut habit), 0, "it is forgotten");
    }
}
