//! Draws a machine from its successor table, as a Mermaid flowchart: an arrow from each step to each that may follow.

use std::fmt::Write as _;

/// The flowchart of `steps`: each name with its successors.
pub(crate) fn flowchart<'s, N>(steps: impl Iterator<Item = (&'s str, N)>) -> String
where
    N: Iterator<Item = &'s str>,
{
    let mut text = String::from("```mermaid\nflowchart LR\n");
    for (step, next) in steps {
        let next: Vec<&str> = next.collect();
        if !next.is_empty() {
            let _ = writeln!(text, "    {step} --> {}", next.join(" & "));
        }
    }
    text.push_str("```\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_an_arrow_to_each_that_may_follow() {
        let steps = [("a", vec!["b", "c"]), ("b", vec!["c"]), ("c", Vec::new())];
        let drawn = flowchart(steps.iter().map(|(step, next)| (*step, next.iter().copied())));
        assert_eq!("```mermaid\nflowchart LR\n    a --> b & c\n    b --> c\n```\n", drawn);
    }
}
