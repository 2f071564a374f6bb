//! Phrases that Stackline's texts avoid, with the term to use instead.

/// A phrase to avoid. Words are separated by spaces, alternatives by `|`; `*` is any word and `^` the start of a sentence.
#[derive(Debug)]
pub(super) struct Phrase {
    pub(super) pattern: &'static str,
    pub(super) instead: &'static str,
    /// Longer phrases, with the same syntax, in which the words are the right ones.
    pub(super) except: &'static [&'static str],
    /// Part of a text in which the phrase is checked.
    pub(super) scope: Scope,
}

/// Part of a text in which a phrase is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Anywhere,
    /// In the first sentence of a paragraph, cell or comment.
    FirstSentence,
    /// In the first sentence of a documentation comment or of help: a noun phrase or an imperative.
    Comment,
    /// In texts that users read: pages, help, messages. Not in comments.
    Shown,
}

/// Phrase to avoid anywhere in a text.
const fn phrase(pattern: &'static str, instead: &'static str) -> Phrase {
    Phrase { pattern, instead, except: &[], scope: Scope::Anywhere }
}

/// Phrase to avoid anywhere, outside of longer phrases.
const fn except(pattern: &'static str, instead: &'static str, except: &'static [&'static str]) -> Phrase {
    Phrase { pattern, instead, except, scope: Scope::Anywhere }
}

/// Phrase to avoid in the first sentence of a block.
const fn first(pattern: &'static str, instead: &'static str, except: &'static [&'static str]) -> Phrase {
    Phrase { pattern, instead, except, scope: Scope::FirstSentence }
}

/// Phrase to avoid in the first sentence of a documentation comment or of help.
const fn comment(pattern: &'static str, instead: &'static str) -> Phrase {
    Phrase { pattern, instead, except: &[], scope: Scope::Comment }
}

/// Phrase to avoid in texts that users read, outside of longer phrases.
const fn shown(pattern: &'static str, instead: &'static str, except: &'static [&'static str]) -> Phrase {
    Phrase { pattern, instead, except, scope: Scope::Shown }
}

/// All phrases to avoid.
pub(super) const PHRASES: &[Phrase] = &[
    // Starts of sentences.
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
    except("what", "a noun", &["what if|to", "describe|describes|explain|explains|show|shows|see what"]),
    except(
        "stand|stands|stood|standing",
        "is, is listed, is written, waits",
        &["stand|stands for", "stand|stands alone"],
    ),
    phrase("told|tells|telling", "report, print, show, distinguish"),
    except("tell", "report, print, show, distinguish", &["to tell apart", "tell * apart", "tell * from"]),
    phrase("beside", "next to, in addition to, concurrent with"),
    phrase("besides", "also, in addition"),
    except(
        "behind",
        "after, below, following, causing",
        &[
            "µs|ms|ns behind",
            "behind a proxy",
            "device behind host",
            "falls|fell|fall|run|runs|lag|lags|lagging|waits|wait|queued|queues|queue|hidden|hide|hides behind",
        ],
    ),
    phrase("for nothing", "wasted, without effect"),
    phrase("hope|hopes|hoped", "speculative gain"),
    phrase("worth", "estimated gain"),
    except("chance|chances", "insignificant, not significant", &["by chance"]),
    phrase("perhaps", "give the bounds"),
    phrase("in sum", "in total"),
    phrase("harmless", "not on the critical path"),
    phrase("count|counts nowhere", "excluded from all totals"),
    phrase("looks|looked at", "analyze, select, read"),
    phrase("look|looks|looked where", "sample, search"),
    phrase("0 does not", "0 disables"),
    phrase("this one by its", "select one by"),
    phrase("is|are of memory|traces|calls", "contains only"),
    phrase("of memory|kernels|operators|samples|calls alone", "only"),
    except(
        "that|which nothing|nobody",
        "unordered, unused, without",
        &["so|is|statement that nothing", "in|of which nothing"],
    ),
    phrase("said", "report, state, print"),
    phrase("nobody", "the actor: a user, a thread, a program"),
    phrase("whatever|whoever|whichever", "any, independent of"),
    phrase("who is there", "liveness, lifetime"),
    phrase("those who", "a noun: callers, owners, users"),
    phrase("who|whoever calls|called|holds|held|asks|asked|needs", "a noun: caller, owner, user"),
    phrase("by the clock", "wall time"),
    phrase("how it was", "ground truth"),
    phrase("as it was", "unchanged"),
    // The field's terms.
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
    except("round|rounds", "iteration, step, repetition", &["round|rounds to|up|down", "round * * to"]),
    except(
        "turn|turns",
        "iteration, step",
        &[
            "turn|turns|turned on|off|into|out",
            "turn|turns * on|off|into",
            "turn|turns a|an|the",
            "in|take|takes turn|turns",
            "its|their turn",
        ],
    ),
    except(
        "place|places",
        "source location, position",
        &[
            "in|one|no place",
            "in its|their place",
            "takes|take|took place",
            "takes|take|took the|its|their place",
            "place a|an|the",
            "default place",
            "^ place",
        ],
    ),
    phrase("chain|chains of calls|callers|frames|python|operators", "call path, sequence"),
    shown(
        "chain|chains",
        "call path, sequence",
        &["elementwise chain|chains", "chain|chains of elementwise", "chain rule"],
    ),
    shown(
        "alone",
        "exclusive (self), only, by itself, without",
        &[
            "left|leave|leaves alone",
            "run|runs|running alone",
            "change|finding|increase|row alone",
            "suggestion ` alone",
        ],
    ),
    phrase("read|reading problem|problems", "diagnostics"),
    phrase("problem|problems when|while|in|during reading", "diagnostics"),
    phrase("problem|problems of|in the input|inputs|file|files|trace|traces|recording|recordings", "diagnostics"),
    phrase("problem|problems of reading", "diagnostics"),
    phrase("problem|problems of the read", "diagnostics"),
    phrase("owner|owners of GPU work", "launch, correlation"),
    phrase("side by side", "concurrent, unordered; in two columns"),
    except("truth", "ground truth", &["ground truth"]),
    except("planted", "injected", &[]),
    phrase("own rule|rules", "Python rule"),
    phrase("other's rule|rules", "external rule"),
];

/// True if a sentence, given by its words, contains a phrase outside of its exceptions.
/// `is_comment`: the text is a documentation comment or help; `is_shown`: users read it.
pub(super) fn matches(phrase: &Phrase, words: &[String], is_first: bool, (is_comment, is_shown): (bool, bool)) -> bool {
    let is_checked = match phrase.scope {
        Scope::Anywhere => true,
        Scope::Shown => is_shown,
        Scope::FirstSentence => is_first,
        Scope::Comment => is_first && is_comment,
    };
    if !is_checked {
        return false;
    }
    let mut exceptions = Vec::new();
    phrase.except.iter().for_each(|longer| exceptions.extend(ranges(longer, words)));
    let is_excused = |&(begin, end): &(usize, usize)| !exceptions.iter().any(|(from, to)| *from <= begin && end <= *to);
    ranges(phrase.pattern, words).iter().any(is_excused)
}

/// Ranges of word indices at which a pattern matches.
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
    use super::{PHRASES, Phrase, matches};

    fn found(text: &str, is_first: bool) -> Vec<&'static str> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let is_found = |phrase: &&Phrase| matches(phrase, &words, is_first, (false, true));
        PHRASES.iter().filter(is_found).map(|phrase| phrase.pattern).collect()
    }

    #[test]
    fn phrases_and_exceptions() {
        assert_eq!(found("what runs", false), ["what"]);
        assert!(found("see what runs and what to do", false).is_empty());
        assert_eq!(found("it is told", true), ["^ it|they|he|she|its|their", "told|tells|telling"]);
        assert_eq!(found("it is told", false), ["told|tells|telling"]);
        assert!(found("sl stands for stackline", false).is_empty());
        assert_eq!(found("the name stands there and stands for a", false).len(), 1);
        assert!(found("the ground truth is known", false).is_empty());
        assert_eq!(found("the truth is known", false), ["truth"]);
        assert!(found("", true).is_empty());
        assert_eq!(found("the time of a frame alone", false), ["alone"]);
        assert!(found("the change alone is left alone", false).is_empty());
        let words = ["chain"].map(str::to_owned);
        let of_code = PHRASES.iter().filter(|phrase| matches(phrase, &words, false, (false, false)));
        assert_eq!(of_code.count(), 0, "comments may have chains");
    }

    /// Sentences and terms to avoid in the guide of wording, with its replacements below.
    #[test]
    fn examples_of_the_guide() {
        let avoided = [
            "tell what to change, where, and what it gains",
            "besides each call with its time",
            "how often in a second to look where threads that run operators wait",
            "0 does not",
            "of a recording of several processes this one by its number",
            "this file is of memory alone",
            "holds no trace of what ran",
            "what runs backward",
            "stands below the operator",
            "nothing was found in what is there of this run",
            "what was lost may have more",
            "perhaps nothing",
            "large but harmless",
            "much time in sum",
            "not in it 1 finding",
            "a finding whose gain is a hope",
            "kept but count nowhere",
            "from where a thread is to those who called it",
            "what is counted beside times",
            "uses of one object that nothing orders",
            "whether something that is said about a damaged trace was so",
            "tree of calls",
            "what was called from here",
            "a chain of calls",
            "the chain below",
            "the time of the frame alone",
            "the problems in the file",
            "problems while reading",
            "real time",
            "held up",
            "an interlude",
            "a stretch",
            "a hop",
            "a chapter",
            "its worth",
            "a chance",
            "losses of records",
            "its place",
            "each round",
            "each turn",
            "the owner of GPU work",
            "side by side",
            "beside each other",
            "who is there",
            "problems of reading",
            "what is told",
            "a planted problem",
            "how it was",
            "the truth",
            "behind it",
            "for nothing",
        ];
        for text in avoided {
            assert!(!found(text, true).is_empty(), "{text}");
        }
        let better = [
            "report performance issues with source location and estimated speedup",
            "report peak memory by owner wasted allocations and the savings of suggested changes",
            "also record every call with timestamps",
            "sampling rate for blocked threads in Hz 0 disables it",
            "select one process of a multi-process recording by PID",
            "this file contains only memory data no execution trace",
            "backward work is shown under its forward operator",
            "part of the run was lost so some may be missing",
            "estimated gain 672.7 µs/step bounds 0 to 7.5 %",
            "false hotspots large total time little on the critical path",
            "excluded 1 speculative finding",
            "kept but excluded from all totals",
            "bounded native stack unwinding",
            "non-time metrics launches bytes copied GPU idle time memory",
            "unordered possibly concurrent accesses to an object",
            "check critical-path claims on damaged traces against ground truth",
            "the elementwise chains run alone",
            "written in place in turn by chance and rounds to ms",
        ];
        for text in better {
            assert_eq!(found(text, true), [""; 0], "{text}");
        }
    }

    #[test]
    fn patterns_are_distinct() {
        let mut patterns: Vec<&str> = PHRASES.iter().map(|phrase| phrase.pattern).collect();
        patterns.sort_unstable();
        patterns.dedup();
        assert_eq!(patterns.len(), PHRASES.len());
    }
}
