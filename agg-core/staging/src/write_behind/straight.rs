//! Which collective writes go straight to the file without a step in which ranks meet.

/// At most so many calls go straight to the file before ranks look again whether they had better
/// wait.
const LONGEST: u32 = 255;

/// Calls that go straight to the file, as all ranks know without meeting.
#[derive(Debug, Default)]
pub struct Straight {
    /// From now on, and after the next time that waiting is not worth it.
    left: u32,
    next: u32,
}

impl Straight {
    /// Whether the next call is one of them.
    pub fn takes(&mut self) -> bool {
        let takes = self.left > 0;
        self.left -= u32::from(takes);
        takes
    }

    /// Waiting is not worth it: more calls go straight than the last time.
    pub fn lengthen(&mut self) {
        self.next = (4 * self.next + 3).min(LONGEST);
        self.left = self.next;
    }

    /// Waiting is worth it.
    pub fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_look_ever_less_often_whether_to_wait_and_begin_anew_once_they_do() {
        let mut straight = Straight::default();
        let taken = |straight: &mut Straight| {
            straight.lengthen();
            (0..1000).take_while(|_| straight.takes()).count()
        };
        assert!(!straight.takes());
        assert_eq!([(); 5].map(|()| taken(&mut straight)), [3, 15, 63, 255, 255]);
        straight.lengthen();
        straight.end();
        assert!(!straight.takes());
        assert_eq!(taken(&mut straight), 3);
    }
}
