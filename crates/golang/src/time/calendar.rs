//! Days and dates, and how points in time are written. Knows no zones and no clock.
//!
//! Follows Go 1.26, `time/time.go`.

const DAY: i64 = 86_400;

/// Seconds from the 1st of March of the year -292,277,022,400, where Go's calendar begins, to 1970.
const BEFORE_1970: i64 = 9_223_372_028_741_760_000;

pub fn days_in_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970, and seconds of the day, of a second since 1970. Go counts from a day so long ago that times before it
/// come out behind the last ones.
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "it wraps around in Go, too, and days are few"
)]
pub fn days_and_seconds(seconds: i64) -> (i64, i64) {
    let since = seconds.wrapping_add(BEFORE_1970) as u64;
    ((since / DAY as u64) as i64 - BEFORE_1970 / DAY, (since % DAY as u64) as i64)
}

/// Days since 1970 of a date. Years are counted from March, so that the leap day comes last.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    // 146,097 days are 400 years, after which the calendar repeats; 719,468 days lie between
    // 0000-03-01 and 1970-01-01.
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day since 1970.
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A second since 1970 as `2006-01-02T15:04:05`.
pub fn format(seconds: i64) -> String {
    let (year, month, day) = date(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_each_others_inverse() {
        for day in (-800_000..3_000_000).step_by(97) {
            let (year, month, of_month) = date(day);
            assert!((1..=days_in_month(year, month)).contains(&of_month));
            assert_eq!(days(year, month, of_month), day);
        }
        assert_eq!(format(951_827_445), "2000-02-29T12:30:45");
        assert_eq!(format(-1), "1969-12-31T23:59:59");
    }
}
