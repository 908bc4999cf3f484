//! Integers as redis reads and writes them.

/// Parses an integer in its canonical form: no sign but `-`, no leading zero, no spaces.
///
/// ```
/// use kv::number::parse;
///
/// assert_eq!(parse(b"-12"), Some(-12));
/// for wrong in ["", "+1", "01", "-0", " 1", "1 ", "9223372036854775808"] {
///     assert_eq!(parse(wrong.as_bytes()), None);
/// }
/// ```
pub fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() > 19 {
        return None;
    }
    let mut sum = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Nineteen digits fit.
        sum = sum * 10 + u64::from(digit - b'0');
    }
    if negative { 0_i64.checked_sub_unsigned(sum) } else { i64::try_from(sum).ok() }
}

/// Appends an integer.
pub fn write(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}
