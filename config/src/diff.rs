//! The difference of two texts, line by line, for the view of a configuration change.

/// A line of the combined texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLine<'t> {
    /// In both.
    Same(&'t str),
    /// Only in the old one.
    Gone(&'t str),
    /// Only in the new one.
    New(&'t str),
}

/// The most cells of the table; texts that differ in more are shown as one replaced by the other.
const CELLS: usize = 4 << 20;

/// The fewest changes from `old` to `new`, in order: removed lines before added ones.
#[must_use]
pub fn lines<'t>(old: &'t str, new: &'t str) -> Vec<DiffLine<'t>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let start = old.iter().zip(&new).take_while(|it| it.0 == it.1).count();
    let rest = || old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest().take_while(|it| it.0 == it.1).count();
    let mut out: Vec<DiffLine<'t>> = old[..start].iter().map(|it| DiffLine::Same(it)).collect();
    between(&old[start..old.len() - end], &new[start..new.len() - end], &mut out);
    out.extend(old[old.len() - end..].iter().map(|it| DiffLine::Same(it)));
    out
}

/// By the longest common subsequence.
fn between<'t>(old: &[&'t str], new: &[&'t str], out: &mut Vec<DiffLine<'t>>) {
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > CELLS {
        out.extend(old.iter().map(|it| DiffLine::Gone(it)));
        out.extend(new.iter().map(|it| DiffLine::New(it)));
        return;
    }
    // The longest common subsequence from here on.
    let mut longest = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let both = i < old.len() && j < new.len();
        if both && old[i] == new[j] {
            out.push(DiffLine::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (!both || longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
            out.push(DiffLine::Gone(old[i]));
            i += 1;
        } else {
            out.push(DiffLine::New(new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(old: &str, new: &str) -> String {
        let write_line = |it: &DiffLine<'_>| match it {
            DiffLine::Same(it) => format!(" {it}"),
            DiffLine::Gone(it) => format!("-{it}"),
            DiffLine::New(it) => format!("+{it}"),
        };
        lines(old, new).iter().map(write_line).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn the_fewest_lines() {
        let check = |old: &str, new: &str, expect: &str| {
            assert_eq!(expect, told(&old.replace(' ', "\n"), &new.replace(' ', "\n")), "{old} to {new}");
        };
        check("", "", "");
        check("a b c", "a b c", " a| b| c");
        check("a b c", "a x c", " a|-b|+x| c");
        check("a b c", "a c", " a|-b| c");
        check("a c", "a b c", " a|+b| c");
        check("a b c d", "b d e", "-a| b|-c| d|+e");
        check("", "a", "+a");
        let many = |letter: &str| (0..3000).map(|it| format!("{letter}{it}\n")).collect::<String>();
        assert_eq!(6000, lines(&many("a"), &many("b")).len(), "bounded");
    }

    proptest! {
        #[test]
        fn both_texts_can_be_restored_from_a_diff(old in "([abc]\n){0,12}", new in "([abc]\n){0,12}") {
            let all = lines(&old, &new);
            let side = |old_side: bool| -> String {
                let keep = |it: &DiffLine<'_>| match it {
                    DiffLine::Same(it) => Some(format!("{it}\n")),
                    DiffLine::Gone(it) => old_side.then(|| format!("{it}\n")),
                    DiffLine::New(it) => (!old_side).then(|| format!("{it}\n")),
                };
                all.iter().filter_map(keep).collect()
            };
            prop_assert_eq!(&old, &side(true));
            prop_assert_eq!(&new, &side(false));
        }
    }
}
