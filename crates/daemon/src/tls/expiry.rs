//! When a certificate ends: one field of it, read as X.509 writes it (RFC 5280, 4.1.2.5).

use std::time::{Duration, SystemTime};

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The time after which a certificate (DER) is not valid; none if it cannot be told.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let (certificate, _) = take(SEQUENCE, certificate)?;
    let (mut body, _) = take(SEQUENCE, certificate)?;
    // The version may be left out: [0]. Then serial number, algorithm, issuer.
    if body.first() == Some(&0xa0) {
        body = any(body)?.2;
    }
    for _ in 0..3 {
        body = any(body)?.2;
    }
    let (validity, _) = take(SEQUENCE, body)?;
    let (kind, text, _) = any(any(validity)?.2)?;
    time(kind, std::str::from_utf8(text).ok()?)
}

/// The first value of a kind, and what comes after it.
fn take(kind: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    any(bytes).filter(|found| found.0 == kind).map(|(_, value, rest)| (value, rest))
}

/// The first value: its kind, itself, and what comes after it.
fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, bytes) = bytes.split_first()?;
    let (&length, bytes) = bytes.split_first()?;
    let (length, bytes) = match length {
        0..=0x7f => (usize::from(length), bytes),
        0x81..=0x84 => {
            let (digits, rest) = bytes.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (value, rest) = bytes.split_at_checked(length)?;
    Some((kind, value, rest))
}

/// `YYMMDDHHMMSSZ`, or with a year of four digits.
fn time(kind: u8, text: &str) -> Option<SystemTime> {
    let digits = text.strip_suffix('Z')?;
    let (year, rest) = match kind {
        UTC_TIME => {
            let year: i64 = digits.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, digits.get(2..)?)
        }
        GENERALIZED_TIME => (digits.get(..4)?.parse().ok()?, digits.get(4..)?),
        _ => return None,
    };
    let part = |at: usize| -> Option<i64> { rest.get(2 * at..2 * at + 2)?.parse().ok() };
    let (month, day) = (part(0)?, part(1)?);
    if rest.len() != 10 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March: then a leap day is a year's last.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * years + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let days = days + (153 * months + 2) / 5 + day - 719_469;
    let seconds = days * 86_400 + part(2)? * 3600 + part(3)? * 60 + part(4)?;
    // Of those that ended before 1970 it is enough to know that they did.
    let seconds = u64::try_from(seconds).unwrap_or(0);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(kind: u8, text: &str) -> Option<u64> {
        time(kind, text)
            .map(|time| time.duration_since(SystemTime::UNIX_EPOCH).expect("after").as_secs())
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(unix(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(unix(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(unix(GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
        assert_eq!(unix(GENERALIZED_TIME, "20240229120000Z"), Some(1_709_208_000));
        assert_eq!(unix(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for wrong in ["", "Z", "20240229120000", "20241329120000Z", "2024é229120000Z"] {
            assert_eq!(unix(GENERALIZED_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_end_of_a_certificate_is_found_and_of_no_part_of_one() {
        let key = rcgen::KeyPair::generate().expect("a key");
        for (year, seconds) in [(2031, 1_925_078_400), (2060, 2_840_227_200)] {
            let mut asked = rcgen::CertificateParams::new(vec!["x".into()]).expect("a name");
            asked.not_after = rcgen::date_time_ymd(year, 1, 2);
            let certificate = asked.self_signed(&key).expect("a certificate");
            let bytes: &[u8] = certificate.der();
            let end = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(not_after(bytes), Some(end), "{year}");
            for part in 0..bytes.len() {
                assert_eq!(not_after(&bytes[..part]), None, "{part} bytes of it");
            }
        }
    }
}
