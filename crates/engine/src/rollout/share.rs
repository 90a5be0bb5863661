//! Parses a number, or a percentage of all.

/// How many of all a share is: `3`, or `10%`, which is rounded up. An invalid one is 0.
pub(super) fn count(share: &str, all: usize) -> usize {
    match share.strip_suffix('%') {
        Some(percent) => (percent.parse::<usize>().unwrap_or_default().min(100) * all).div_ceil(100),
        None => share.parse::<usize>().unwrap_or_default().min(all),
    }
}

/// The same, rounded down.
pub(super) fn at_most(share: &str, all: usize) -> usize {
    match share.strip_suffix('%') {
        Some(percent) => percent.parse::<usize>().unwrap_or_default().min(100) * all / 100,
        None => share.parse().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_numbers_or_percentages() {
        for (share, all, of_all) in
            [("1", 1000, 1), ("10%", 1000, 100), ("10%", 5, 1), ("100%", 7, 7), ("9", 4, 4), ("x", 9, 0)]
        {
            assert_eq!(count(share, all), of_all, "{share} of {all}");
        }
        assert_eq!((at_most("1%", 1000), at_most("1%", 99), at_most("5", 3)), (10, 0, 5));
    }
}
