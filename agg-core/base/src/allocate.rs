//! Memory that may not be to be had: whoever needs much asks first, and a no is an error.

use crate::{Error, ErrorClass, Result};

/// Asks whether so many bytes can be allocated now.
///
/// # Errors
/// `NoMem` if they cannot.
pub fn require(bytes: usize) -> Result<()> {
    let mut probe: Vec<u8> = Vec::new();
    let room = probe.try_reserve_exact(bytes);
    // Compilers remove allocations that nobody uses.
    std::hint::black_box(&mut probe);
    room.map_err(|_| no_memory(bytes))
}

/// A buffer of zeros, which take storage when they are used.
///
/// # Errors
/// `NoMem` if there is no memory for it.
pub fn zeros(bytes: usize) -> Result<Vec<u8>> {
    require(bytes)?;
    Ok(vec![0; bytes])
}

/// The error where there is no memory for so many bytes.
pub fn no_memory(bytes: usize) -> Error {
    Error::new(ErrorClass::NoMem, format!("no memory for {bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused() {
        for bytes in [1 << 60, usize::MAX] {
            assert_eq!(zeros(bytes).unwrap_err().class(), ErrorClass::NoMem);
        }
        assert_eq!(zeros(5).unwrap(), [0; 5]);
        assert!(require(0).is_ok());
    }
}
