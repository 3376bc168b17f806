//! The search for the fewest changes that make a condition true. The changes and the condition are not here.

/// The limit of trials of one, two or three changes together: all of some thirty-five changes. A longer list comes from a
/// response with very many fields, and a search must stay fast.
const TRIALS: usize = 8192;

/// The largest number of changes that are tried together in every combination.
const TOGETHER: usize = 3;

/// The fewest of `candidates`, in their order, after which `holds`: one if one suffices, otherwise two, otherwise three;
/// otherwise any number, of which none can be omitted. `None` if it holds already, or not even after all of them.
pub fn fewest<T: Clone, C: Clone>(
    was: &T,
    candidates: &[C],
    apply: impl Fn(&T, &C) -> T,
    holds: impl Fn(&T) -> bool,
) -> Option<Vec<C>> {
    if holds(was) {
        return None;
    }
    let mut search = Search { candidates, apply, holds, left: TRIALS };
    (1..=TOGETHER).find_map(|count| search.of(was, 0, count)).or_else(|| search.all_but(was))
}

struct Search<'c, C, A, H> {
    candidates: &'c [C],
    apply: A,
    holds: H,
    /// The remaining trials.
    left: usize,
}

impl<C: Clone, A, H> Search<'_, C, A, H> {
    /// The first set of `count` candidates, from one on, that suffices.
    fn of<T: Clone>(&mut self, was: &T, from: usize, count: usize) -> Option<Vec<C>>
    where
        A: Fn(&T, &C) -> T,
        H: Fn(&T) -> bool,
    {
        for at in from..self.candidates.len() {
            self.left = self.left.checked_sub(1)?;
            let one = &self.candidates[at];
            let changed = (self.apply)(was, one);
            let rest = match count {
                1 => (self.holds)(&changed).then(Vec::new),
                _ => self.of(&changed, at + 1, count - 1),
            };
            if let Some(rest) = rest {
                return Some([vec![one.clone()], rest].concat());
            }
        }
        None
    }

    /// All candidates without those that can be omitted, the last ones first; repeated until none can.
    fn all_but<T: Clone>(&self, was: &T) -> Option<Vec<C>>
    where
        A: Fn(&T, &C) -> T,
        H: Fn(&T) -> bool,
    {
        let does =
            |these: &[C]| (self.holds)(&these.iter().fold(was.clone(), |it, one| (self.apply)(&it, one)));
        let mut these = self.candidates.to_vec();
        if !does(&these) {
            return None;
        }
        loop {
            let before = these.len();
            for at in (0..these.len()).rev() {
                let mut fewer = these.clone();
                fewer.remove(at);
                if does(&fewer) {
                    these = fewer;
                }
            }
            if these.len() == before {
                return Some(these);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The number that it takes, and after how many questions that was known.
    fn found(of: u32, needed: &[u32]) -> (Option<Vec<u32>>, usize) {
        let candidates: Vec<u32> = (0..of).collect();
        let asked = Cell::new(0);
        let holds = |it: &Vec<u32>| {
            asked.set(asked.get() + 1);
            needed.iter().all(|one| it.contains(one))
        };
        let apply = |was: &Vec<u32>, it: &u32| [was.clone(), vec![*it]].concat();
        (fewest(&Vec::new(), &candidates, apply, holds), asked.get())
    }

    #[test]
    fn the_search_finds_the_smallest_set_of_changes() {
        for needed in [&[3][..], &[0, 4], &[1, 2, 9], &[0, 3, 5, 6, 9], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            assert_eq!(Some(needed.to_vec()), found(10, needed).0);
        }
        assert_eq!((None, 1), found(10, &[]), "it holds already");
        assert_eq!(None, found(10, &[1, 10]).0, "not even all of them do");
    }

    #[test]
    fn a_search_has_an_end() {
        let (these, asked) = found(200, &[197, 198, 199]);
        assert_eq!(Some(vec![197, 198, 199]), these, "too far behind to be met, but found");
        assert!(asked <= TRIALS + 3 * 200, "{asked}");
    }
}
