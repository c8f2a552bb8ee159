//! Whether memory holds nothing but zeros.

use super::Memory;

/// Bytes that are compared at a time.
const BLOCK: usize = 4096;

impl Memory {
    /// Whether all data bytes are zero. Most other data is recognised by its first or last bytes.
    pub fn is_zero(&self) -> bool {
        let len = self.len();
        if [0, len.saturating_sub(8), len / 2].iter().any(|at| !self.is_zero_at(*at)) {
            return false;
        }
        let (mut cursor, mut before) = (self.cursor(0), None);
        while cursor.position() < len {
            let Some((pointer, run)) = cursor.run() else { break };
            let run = run.min(usize::try_from(len - cursor.position()).unwrap_or(usize::MAX));
            // A type may name the same bytes many times over.
            if before != Some((pointer, run)) {
                // SAFETY: `Memory::new` promises that the run is readable and not written
                // meanwhile.
                let bytes = unsafe { std::slice::from_raw_parts(pointer, run) };
                if !bytes.chunks(BLOCK).all(are_zero) {
                    return false;
                }
                before = Some((pointer, run));
            }
            cursor.advance(run as u64);
        }
        true
    }

    fn is_zero_at(&self, position: u64) -> bool {
        let mut bytes = [0; 8];
        self.gather(position, &mut bytes);
        bytes == [0; 8]
    }
}

/// Without an early end, so that many bytes are looked at in one step.
fn are_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}
