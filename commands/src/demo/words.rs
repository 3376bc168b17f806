//! The content of the site: recipes, generated from a few words and their number. The same number always gives the same
//! recipe, so that pages can be cached.

/// The number of recipes, counted from 1.
pub const RECIPES: u32 = 320;

/// The shelves, by the main ingredient.
pub const SHELVES: [&str; 12] = [
    "apple",
    "barley",
    "carrot",
    "duck",
    "egg",
    "fennel",
    "goat cheese",
    "hazelnut",
    "leek",
    "mushroom",
    "pear",
    "trout",
];

const MANNERS: [&str; 10] = [
    "Roasted",
    "Braised",
    "Pickled",
    "Smoked",
    "Slow-cooked",
    "Grilled",
    "Candied",
    "Potted",
    "Crisp",
    "Buttered",
];
const DISHES: [&str; 8] = ["pie", "soup", "salad", "stew", "tart", "terrine", "dumplings", "gratin"];
const COMPANIONS: [&str; 9] =
    ["thyme", "mustard", "honey", "brown butter", "sorrel", "juniper", "cider", "walnuts", "horseradish"];
const STEPS: [&str; 8] = [
    "Wash everything, and put the oven on at 180 degrees.",
    "Cut what is large into pieces the size of a walnut.",
    "Melt the butter slowly; it must not turn brown unless the name says so.",
    "Let it stand under a cloth while you lay the table.",
    "Stir, taste, and put in less salt than you think.",
    "Cover it, and leave it alone for the better part of an hour.",
    "Turn it once, when the edges begin to colour.",
    "Carry it to the table in the pan it was made in.",
];

/// One recipe.
pub struct DemoRecipe {
    /// From 1.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// An index into [`SHELVES`].
    pub shelf: usize,
    /// Its side dish.
    pub companion: &'static str,
    /// Minutes.
    pub minutes: u32,
    /// Its steps.
    pub steps: Vec<&'static str>,
}

/// The recipe of a number, if it exists.
pub fn recipe(number: u32) -> Option<DemoRecipe> {
    if !(1..=RECIPES).contains(&number) {
        return None;
    }
    let mut dice = Dice(number.wrapping_mul(2_654_435_761) | 1);
    let shelf = (number as usize - 1) % SHELVES.len();
    let (manner, dish) = (dice.pick(&MANNERS), dice.pick(&DISHES));
    let companion = dice.pick(&COMPANIONS);
    let name = format!("{manner} {} {dish} with {companion}", SHELVES[shelf]);
    let minutes = 20 + dice.roll(20) * 5;
    let first = dice.roll(4) as usize;
    let steps = (0..5).map(|it| STEPS[(first + it) % STEPS.len()]).collect();
    Some(DemoRecipe { number, name, shelf, companion, minutes, steps })
}

/// Every recipe, in order.
pub fn recipes() -> impl Iterator<Item = DemoRecipe> {
    (1..=RECIPES).filter_map(recipe)
}

/// Pseudo-random numbers that are the same each time.
pub struct Dice(pub u32);

impl Dice {
    /// Below `sides`, which is above zero.
    pub fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 8) % sides
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        words[self.roll(u32::try_from(words.len()).unwrap_or(1)) as usize % words.len()]
    }
}
