//! The rules that choose circuits for a demand, one a file. A new one is a file and a line in [`rules`];
//! specifications, the daemon's files, scores of predictors and the documentation read the list.

mod form;
mod recalled;

pub use form::{Rule, RuleInput};
pub use recalled::Recalled;

use std::sync::Arc;

/// Declares the files and lists the rules in them.
macro_rules! rules {
    ($($file:ident::$Rule:ident),* $(,)?) => {
        $(mod $file; pub use $file::$Rule;)*

        /// Every rule that a specification may name.
        pub fn rules() -> Vec<Arc<dyn Rule>> {
            vec![$(Arc::new($Rule)),*]
        }
    };
}

rules! {
    algorithm_1::Algorithm1,
    matchings::Matchings,
    timed::Timed,
}

/// The rule of a name.
///
/// # Errors
/// Which there are, if there is none of that name.
///
/// ```
/// assert_eq!(lightloom_decide::rule("timed").unwrap().name(), "timed");
/// let none = lightloom_decide::rule("best").unwrap_err();
/// assert!(none.starts_with("must be one of algorithm-1, "));
/// ```
pub fn rule(name: &str) -> Result<Arc<dyn Rule>, String> {
    let found = rules().into_iter().find(|rule| rule.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = rules().iter().map(|rule| rule.name()).collect();
        format!("must be one of {}", names.join(", "))
    })
}
