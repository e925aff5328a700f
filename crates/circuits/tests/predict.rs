//! All predictors of the list alike, and two by what they are to learn.

use lightloom_circuits::predict::{
    Copilot, Forecaster, Window, predictor, predictors, relative_error,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_prediction_is_a_distribution_and_repeats(
        passes in prop::collection::vec(
            (0usize..4, prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0, 0.0..1e12], 10)),
            0..30,
        ),
        length in 1usize..6,
        decay in 0.01..1.0f64,
    ) {
        for name in predictors().iter().map(|predictor| predictor.name()) {
            let new = || predictor(name).expect("it is listed");
            let window = Window { length, decay };
            let mut both = [(); 2].map(|()| Forecaster::new(new(), 2, 5, window));
            for (layer, load) in &passes {
                let [one, two] = both.each_mut().map(|f| {
                    let said = f.predict(*layer);
                    f.observe(*layer, load);
                    said
                });
                prop_assert_eq!(one.rows.len(), 2);
                for row in &one.rows {
                    prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", one);
                    prop_assert!(row.iter().all(|&share| (0.0..=1.0 + 1e-9).contains(&share)));
                }
                prop_assert_eq!(one, two);
            }
        }
    }
}

/// Two regimes: what expert e of layer 0 gets goes to e + 1, later to e + 2.
#[test]
fn the_window_forgets_what_has_drifted_away() {
    let n = 5;
    let load = |hot: usize| (0..n).map(|e| if e == hot % n { 0.6 } else { 0.1 }).collect();
    let mut copilot = Forecaster::new(Box::<Copilot>::default(), 1, n, Window::default());
    let mut wrong = Vec::new();
    for pass in 0..60 {
        let (hot, shift) = (pass * 7 % 11, if pass < 30 { 1 } else { 2 });
        let (before, after): (Vec<f64>, Vec<f64>) = (load(hot), load(hot + shift));
        copilot.observe(0, &before);
        wrong.push(relative_error(&copilot.predict(1).rows[0], &after));
        copilot.observe(1, &after);
    }
    assert!(wrong[29] < 0.01, "learnt: {}", wrong[29]);
    assert!(wrong[30] > 0.5, "surprised: {}", wrong[30]);
    assert!(wrong[48] < 0.01, "relearnt within a window: {}", wrong[48]);
}

#[test]
fn auto_weighs_most_who_has_been_right() {
    let n = 4;
    let mut auto = Forecaster::new(predictor("auto").unwrap(), 1, n, Window::default());
    let load = |hot: usize| (0..n).map(|e| if e == hot { 0.7 } else { 0.1 }).collect();
    let mut wrong = Vec::new();
    for pass in 0..60 {
        // Layer 0 flips to and fro; layer 1 repeats it.
        let moving: Vec<f64> = load(pass * pass % 3);
        auto.predict(0);
        auto.observe(0, &moving);
        let said = auto.predict(1);
        wrong.push(relative_error(&said.rows[0], &moving));
        assert!(pass < 30 || ["copilot", "previous-layer"].contains(&said.by), "{pass}: {said:?}");
        auto.observe(1, &moving);
    }
    assert!(wrong[0] > 0.3 && wrong[50..].iter().all(|&error| error < 0.2), "{wrong:?}");
}
