//! Why a command is denied: four letters, as GR-833 and the manuals of TL1 equipment have them.

use std::fmt;

/// A class of denials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// There is no such command here.
    Iicm,
    /// It cannot be read, or is too long.
    Iisp,
    /// It is for another switch.
    Iita,
    /// A port that the switch has not, or a list of ports that is none.
    Iiac,
    /// The correlation tag is none.
    Iict,
    /// Something has to be said and is not.
    Ipms,
    /// Something is said that has no place.
    Ipex,
    /// A parameter has a value that it cannot have.
    Ipnv,
    /// Lists that do not fit each other.
    Idnv,
    /// Nobody is logged in.
    Plna,
    /// No such user, or not with this password.
    Piui,
    /// The port is not one of this user's.
    Piuc,
    /// A port still moves.
    Sarb,
    /// A port is in use.
    Snvs,
}

impl Code {
    /// Every code that a switch here may answer.
    pub const ALL: [Code; 14] = {
        use Code::*;
        [Iicm, Iisp, Iita, Iiac, Iict, Ipms, Ipex, Ipnv, Idnv, Plna, Piui, Piuc, Sarb, Snvs]
    };

    /// The four letters, and what they stand for.
    ///
    /// ```
    /// use lightloom_control::drivers::tl1::Code;
    /// assert_eq!(Code::Plna.words(), ("PLNA", "Privilege, Login Not Active"));
    /// ```
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Code::Iicm => ("IICM", "Input, Invalid Command"),
            Code::Iisp => ("IISP", "Input, Invalid Syntax or Punctuation"),
            Code::Iita => ("IITA", "Input, Invalid Target Identifier"),
            Code::Iiac => ("IIAC", "Input, Invalid Access Identifier"),
            Code::Iict => ("IICT", "Input, Invalid Correlation Tag"),
            Code::Ipms => ("IPMS", "Input, Parameter Missing"),
            Code::Ipex => ("IPEX", "Input, Parameter Extra"),
            Code::Ipnv => ("IPNV", "Input, Parameter Not Valid"),
            Code::Idnv => ("IDNV", "Input, Data Not Valid"),
            Code::Plna => ("PLNA", "Privilege, Login Not Active"),
            Code::Piui => ("PIUI", "Privilege, Illegal User Identity"),
            Code::Piuc => ("PIUC", "Privilege, Illegal User Code"),
            Code::Sarb => ("SARB", "Status, All Resources Busy"),
            Code::Snvs => ("SNVS", "Status, Not in Valid State"),
        }
    }
}

/// A denial, with words for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The code of GR-831.
    pub code: Code,
    /// The reason in words.
    pub words: String,
}

impl Denial {
    /// A denial of this class.
    pub fn new(code: Code, words: impl Into<String>) -> Self {
        Denial { code, words: words.into() }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code.words().0, self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_four_letters_and_differ() {
        let letters: std::collections::BTreeSet<_> =
            Code::ALL.iter().map(|code| code.words().0).collect();
        assert_eq!(letters.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(
                code.words().0.len() == 4
                    && code.words().0.to_lowercase() == format!("{code:?}").to_lowercase()
            );
        }
    }
}
