//! The known word that a wrong one was probably meant to be.

/// The most similar word of `words`; `None` if none is similar.
#[must_use]
pub fn nearest<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wrong.chars().count() / 3).clamp(1, 3);
    words
        .map(|it| (distance(&wrong.to_ascii_lowercase(), it), it))
        .min_by_key(|it| it.0)
        .filter(|it| it.0 <= limit)
        .map(|it| it.1)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replace = rows[i][j] + usize::from(x != y);
            let mut best = replace.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_words() {
        #[track_caller]
        fn check(wrong: &str, expect: Option<&str>) {
            assert_eq!(
                expect,
                nearest(wrong, ["listen", "workers", "limits", "site"].into_iter()),
                "{wrong}"
            );
        }
        check("lisen", Some("listen"));
        check("wrokers", Some("workers"));
        check("Sites", Some("site"));
        check("limit", Some("limits"));
        check("colour", None);
        check("", None);
    }
}
