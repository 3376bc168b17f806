//! Who is told of room, how often, and when a thread looks again.

use super::*;

fn told(room: &Room) -> u64 {
    room.0.load(Relaxed)
}

#[test]
fn a_sweep_tells_of_each_part_and_of_its_end() {
    let room = Room::default();
    let mut freed = Freed::new(room.clone());
    freed.add(ENOUGH - 1);
    assert_eq!(0, told(&room), "not enough yet");
    freed.add(1);
    assert_eq!(1, told(&room));
    freed.add(ENOUGH);
    assert_eq!(2, told(&room));
    freed.end();
    assert_eq!(3, told(&room), "what little was freed since the last");
    freed.end();
    assert_eq!(3, told(&room), "there was no other sweep");
}

#[test]
fn many_small_sweeps_are_told_of_together() {
    let room = Room::default();
    let mut freed = Freed::new(room.clone());
    for _ in 0..3 {
        freed.add(ENOUGH / 4);
        freed.end();
    }
    assert_eq!(0, told(&room), "a purge of a page makes nobody look through all of theirs");
    freed.add(ENOUGH / 4);
    assert_eq!(1, told(&room));
}

#[test]
fn who_was_told_looks_again_soon() {
    let room = Room::default();
    let quiet = Quiet::new(room.clone(), Arc::default());
    assert_eq!(LOOK, quiet.look());
    room.tell();
    assert_eq!(SOON, quiet.look());
    assert_eq!(LOOK, quiet.look(), "nothing more was told");
}
