//! Phrases that Stackline's texts avoid, with the term to use instead.

/// A phrase to avoid. Words are separated by spaces, alternatives by `|`; `*` is any word and `^` the start of a sentence.
#[derive(Debug)]
pub(super) struct Phrase {
    pub(super) pattern: &'static str,
    pub(super) instead: &'static str,
    /// Longer phrases, with the same syntax, in which the words are the right ones.
    pub(super) except: &'static [&'static str],
    /// Part of a text in which the phrase is checked.
    pub(super) place: Place,
}

/// Part of a text in which a phrase is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    /// In the first sentence of a paragraph, cell or comment.
    FirstSentence,
    /// In the first sentence of a documentation comment: a noun phrase or an imperative.
    Comment,
}

const fn phrase(pattern: &'static str, instead: &'static str) -> Phrase {
    Phrase { pattern, instead, except: &[], place: Place::Anywhere }
}

const fn except(pattern: &'static str, instead: &'static str, except: &'static [&'static str]) -> Phrase {
    Phrase { pattern, instead, except, place: Place::Anywhere }
}

const fn first(pattern: &'static str, instead: &'static str, except: &'static [&'static str]) -> Phrase {
    Phrase { pattern, instead, except, place: Place::FirstSentence }
}

const fn comment(pattern: &'static str, instead: &'static str) -> Phrase {
    Phrase { pattern, instead, except: &[], place: Place::Comment }
}

/// All phrases to avoid.
pub(super) const PHRASES: &[Phrase] = &[
    // Starts of sentences.
    phrase("^ what", "a noun"),
    phrase("^ whether", "a noun, or \"if\" after the main clause"),
    phrase("^ besides", "\"also\""),
    phrase("^ not in it", "excluded"),
    phrase("^ of * this one", "an imperative such as \"select one\""),
    first("^ it|they|he|she|its|their", "the noun", &[]),
    first(
        "^ this|that|these|those is|are|was|were|has|have|does|do|can|may|must|holds|means|makes|needs",
        "the noun",
        &[],
    ),
    first("^ all that|of", "a noun", &["^ all of"]),
    comment("^ how|where|why|when|who|whose|which|from|nothing|so|as", "a noun phrase or an imperative"),
    // Private language.
    except("stand|stands|stood", "is, is listed, is written, waits", &["stand|stands for", "stand|stands alone"]),
    phrase("told|tells", "report, print, show, distinguish"),
    except("tell", "report, print, show, distinguish", &["to tell apart", "tell * apart", "tell * from"]),
    phrase("beside", "next to, in addition to, concurrent with"),
    phrase("besides", "also, in addition"),
    except(
        "behind",
        "after, below, following, causing",
        &[
            "µs|ms|ns behind",
            "behind a proxy",
            "falls|fell|fall|run|runs|lag|lags|lagging|waits|wait|queued|queues|queue|hidden|hide|hides behind",
        ],
    ),
    phrase("for nothing", "wasted, without effect"),
    phrase("hope|hopes|hoped", "speculative gain"),
    phrase("worth", "estimated gain"),
    phrase("a chance", "insignificant, not significant"),
    phrase("perhaps", "give the bounds"),
    phrase("perhaps nothing", "lower bound 0"),
    phrase("in sum", "in total"),
    phrase("harmless", "not on the critical path"),
    phrase("count|counts nowhere", "excluded from all totals"),
    phrase("what is there|told|said|counted|found", "a noun"),
    phrase("what it|they|is of|has|have|had", "a noun"),
    phrase("say|says|said|know|knows|determine what", "name, describe, list"),
    phrase("what was|were|has|have|had|could|cannot", "a noun"),
    phrase("looks|looked at", "analyze, select, read"),
    phrase("nobody", "the actor: a user, a thread, a program"),
    phrase("whatever|whoever|whichever", "any, independent of"),
    phrase("who is there", "liveness, lifetime"),
    phrase("who|whoever calls|called|holds|held|asks|asked|needs", "a noun: caller, owner, user"),
    phrase("by the clock", "wall time"),
    phrase("how it was", "ground truth"),
    phrase("as it was", "unchanged"),
    // The field's terms.
    except(
        "of|from|in|to|with|by|for|on|at|about|than what",
        "a noun",
        &["of|from|in|to|with|by|for|on|at|about|than what if"],
    ),
    phrase("tree|trees of calls", "call tree, calling context tree"),
    phrase("called from here", "callees, call path"),
    phrase("real time", "wall time"),
    phrase("held up", "blocked, waiting"),
    phrase("interlude|interludes", "gap, idle time"),
    phrase("stretch|stretches", "time range, window, gap"),
    phrase("hop|hops", "critical-path segment"),
    phrase("chapter|chapters", "critical-path segment"),
    except(
        "losses",
        "missing records, dropped events",
        &["training losses", "list of losses", "fused losses", "unfused losses", "lists * losses"],
    ),
    except("round|rounds", "iteration, step", &["round|rounds to|up|down"]),
    phrase("owner|owners of gpu work", "launch, correlation"),
    phrase("side by side", "concurrent, unordered; in two columns"),
    except("truth", "ground truth", &["ground truth"]),
    except("planted", "injected", &[]),
    phrase("own rule|rules", "Python rule"),
    phrase("other's rule|rules", "external rule"),
];

/// Stems of file names that do not name their content, with an example of one that does.
pub(super) const STEMS: &[(&str, &str)] = &[
    ("alike", "baseline_steps"),
    ("beside", "extra_metrics"),
    ("chapter", "summary"),
    ("derived", "cache"),
    ("facts", "object_usage"),
    ("first", "prefetch"),
    ("gone", "server_offline"),
    ("got", "plt_hook"),
    ("ground", "shared_context"),
    ("hops", "segments"),
    ("interludes", "host_gaps"),
    ("lacks", "requirements"),
    ("losses", "missing_records"),
    ("makeup", "path_breakdown"),
    ("opened", "run"),
    ("others", "external_rules"),
    ("own", "python_rules"),
    ("place", "source_location"),
    ("places", "path_mapping"),
    ("planted", "injected_faults"),
    ("price", "gain"),
    ("problems", "diagnostics"),
    ("rounds", "iterations"),
    ("story", "summary"),
    ("strays", "order_conflicts"),
    ("told", "tensor_names"),
    ("turns", "lock_contention"),
    ("words", "messages"),
];

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
];

/// American words that begin like a British one.
const AMERICAN: &[&str] = &[
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
];

/// American spelling of a British word.
pub(super) fn american(word: &str) -> Option<&'static str> {
    let whole = BRITISH_WORDS.iter().find(|(british, _)| *british == word);
    let start = || BRITISH_STARTS.iter().find(|(british, _)| word.starts_with(british));
    let (_, american) = whole.or_else(|| if AMERICAN.contains(&word) { None } else { start() })?;
    Some(american)
}

/// Match of a phrase outside of its exceptions.
pub(super) fn matches(phrase: &Phrase, words: &[String], is_first: bool, is_comment: bool) -> bool {
    let is_checked = match phrase.place {
        Place::Anywhere => true,
        Place::FirstSentence => is_first,
        Place::Comment => is_first && is_comment,
    };
    if !is_checked {
        return false;
    }
    let mut exceptions = Vec::new();
    phrase.except.iter().for_each(|longer| exceptions.extend(ranges(longer, words)));
    let is_excused = |&(begin, end): &(usize, usize)| !exceptions.iter().any(|(from, to)| *from <= begin && end <= *to);
    ranges(phrase.pattern, words).iter().any(is_excused)
}

/// Ranges of words that match a pattern.
fn ranges(pattern: &str, words: &[String]) -> Vec<(usize, usize)> {
    let (pattern, is_start) = pattern.strip_prefix("^ ").map_or((pattern, false), |rest| (rest, true));
    let parts: Vec<Vec<&str>> = pattern.split(' ').map(|part| part.split('|').collect()).collect();
    let fits = |begin: usize| {
        parts.iter().zip(&words[begin..]).all(|(part, word)| part[0] == "*" || part.contains(&word.as_str()))
    };
    let last = if is_start { 1 } else { words.len() };
    (0..last)
        .filter(|begin| begin + parts.len() <= words.len() && fits(*begin))
        .map(|begin| (begin, begin + parts.len()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{AMERICAN, PHRASES, STEMS, american, matches};

    fn found(text: &str, is_first: bool) -> Vec<&'static str> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        PHRASES.iter().filter(|phrase| matches(phrase, &words, is_first, false)).map(|phrase| phrase.pattern).collect()
    }

    #[test]
    fn phrases_and_exceptions() {
        assert_eq!(found("what runs", false), ["^ what"]);
        assert!(found("see what runs", false).is_empty());
        assert_eq!(found("it is told", true), ["^ it|they|he|she|its|their", "told|tells"]);
        assert_eq!(found("it is told", false), ["told|tells"]);
        assert!(found("sl stands for stackline", false).is_empty());
        assert_eq!(found("the name stands there and stands for a", false).len(), 1);
        assert!(found("the ground truth is known", false).is_empty());
        assert_eq!(found("the truth is known", false), ["truth"]);
        assert!(found("", true).is_empty());
    }

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

    #[test]
    fn tables_have_no_duplicates() {
        let mut patterns: Vec<&str> = PHRASES.iter().map(|phrase| phrase.pattern).collect();
        let mut stems: Vec<&str> = STEMS.iter().map(|(stem, _)| *stem).collect();
        for names in [&mut patterns, &mut stems] {
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }
}
