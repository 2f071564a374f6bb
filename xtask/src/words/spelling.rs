//! American spelling of British words.

/// British spellings by the start of a word, with the American one. Words that begin alike in both are listed whole below.
const BRITISH_STARTS: &[(&str, &str)] = &[
    ("colour", "color"),
    ("behaviour", "behavior"),
    ("favour", "favor"),
    ("neighbour", "neighbor"),
    ("honour", "honor"),
    ("labour", "labor"),
    ("flavour", "flavor"),
    ("centre", "center"),
    ("fibre", "fiber"),
    ("metre", "meter"),
    ("licence", "license"),
    ("defence", "defense"),
    ("offence", "offense"),
    ("grey", "gray"),
    ("artefact", "artifact"),
    ("catalogue", "catalog"),
    ("analogue", "analog"),
    ("judgement", "judgment"),
    ("acknowledgement", "acknowledgment"),
    ("sceptic", "skeptic"),
    ("cancell", "cancel(ed)"),
    ("labell", "label(ed)"),
    ("modell", "model(ed)"),
    ("signall", "signal(ed)"),
    ("travell", "travel(ed)"),
    ("totall", "total(ed)"),
    ("initialis", "initialize"),
    ("synchronis", "synchronize"),
    ("organis", "organize"),
    ("optimis", "optimize"),
    ("recognis", "recognize"),
    ("normalis", "normalize"),
    ("serialis", "serialize"),
    ("deserialis", "deserialize"),
    ("summaris", "summarize"),
    ("minimis", "minimize"),
    ("maximis", "maximize"),
    ("visualis", "visualize"),
    ("parallelis", "parallelize"),
    ("utilis", "utilize"),
    ("prioritis", "prioritize"),
    ("specialis", "specialize"),
    ("generalis", "generalize"),
    ("quantis", "quantize"),
    ("tokenis", "tokenize"),
    ("vectoris", "vectorize"),
    ("symbolis", "symbolize"),
    ("realis", "realize"),
    ("customis", "customize"),
    ("categoris", "categorize"),
    ("finalis", "finalize"),
    ("emphasis", "emphasize"),
    ("materialis", "materialize"),
    ("memois", "memoize"),
    ("randomis", "randomize"),
    ("stabilis", "stabilize"),
    ("standardis", "standardize"),
    ("characteris", "characterize"),
    ("canonicalis", "canonicalize"),
    ("discretis", "discretize"),
    ("linearis", "linearize"),
    ("anonymis", "anonymize"),
    ("amortis", "amortize"),
    ("authoris", "authorize"),
    ("harmonis", "harmonize"),
    ("penalis", "penalize"),
];

/// American words that begin like a British one.
const AMERICAN: &[&str] = &[
    "cancellation",
    "cancellations",
    "emphasis",
    "optimism",
    "optimistic",
    "parallelism",
    "realism",
    "realistic",
    "realistically",
    "specialist",
    "totally",
];

/// British words whose American one begins alike, and British forms.
const BRITISH_WORDS: &[(&str, &str)] = &[
    ("analyse", "analyze"),
    ("analysed", "analyzed"),
    ("analysing", "analyzing"),
    ("programme", "program"),
    ("programmes", "programs"),
    ("practise", "practice"),
    ("whilst", "while"),
    ("amongst", "among"),
    ("learnt", "learned"),
    ("spelt", "spelled"),
    ("ageing", "aging"),
    ("fulfil", "fulfill"),
    ("cheque", "check"),
    ("dialogue", "dialog"),
    ("maths", "math"),
];

/// American spelling (at least of the stem) of a British word; `None` for other words.
pub(super) fn american(word: &str) -> Option<&'static str> {
    let whole = BRITISH_WORDS.iter().find(|(british, _)| *british == word);
    let start = || BRITISH_STARTS.iter().find(|(british, _)| word.starts_with(british));
    let (_, american) = whole.or_else(|| if AMERICAN.contains(&word) { None } else { start() })?;
    Some(american)
}

#[cfg(test)]
mod tests {
    use super::{AMERICAN, american};

    #[test]
    fn spelling() {
        assert_eq!(american("synchronisation"), Some("synchronize"));
        assert_eq!(american("colours"), Some("color"));
        assert_eq!(american("analysed"), Some("analyzed"));
        let fine = ["analyses", "color", "synchronization", "program", "programmed", "modeled", "license"];
        for word in fine.iter().chain(AMERICAN) {
            assert_eq!(american(word), None, "{word}");
        }
    }
}
