#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn integers_come_back(value in any::<i128>(), shift in 0..127u32) {
        let mut values = Values::default();
        let stored = values.int(value >> shift);
        prop_assert_eq!(values.kind(stored), Kind::Int(value >> shift));
    }

    #[test]
    fn lists_grow_in_any_order(steps in proptest::collection::vec((0..4usize, 0..6u8), 0..60)) {
        let mut values = Values::default();
        let nodes: Vec<NodeId> = (0..4).map(|_| values.node(NodeKind::List, &[]).unwrap()).collect();
        let mut expected = vec![Vec::new(); 4];
        for (number, (list, count)) in steps.into_iter().enumerate() {
            let more: Vec<Value> = (0..count).map(|at| values.int(i128::from(at) + 100 * number as i128)).collect();
            values.extend(nodes[list], &more).unwrap();
            expected[list].extend(more);
        }
        for (node, expected) in nodes.iter().zip(expected) {
            prop_assert_eq!(values.items(*node), expected.as_slice());
        }
    }
}

proptest! {
    /// Lists of the same dicts share their items, and keep their content while any of them grow.
    #[test]
    fn lists_of_dicts_grow_in_any_order(
        steps in proptest::collection::vec((0..4usize, 0..3usize, prop_oneof![0..3usize, 254..259usize]), 0..40)
    ) {
        let mut values = Values::default();
        let key = Value::text(values.strings.intern("line"));
        let dicts: Vec<Value> = (0..3).map(|line| {
            let line = values.int(line);
            values.node(NodeKind::Dict, &[key, line]).unwrap().into()
        }).collect();
        let lists: Vec<NodeId> = (0..4).map(|_| values.node(NodeKind::List, &[]).unwrap()).collect();
        let mut expected = vec![Vec::new(); 4];
        for (list, dict, count) in steps {
            let more = vec![dicts[dict]; count];
            values.extend(lists[list], &more).unwrap();
            expected[list].extend(more);
        }
        for (list, expected) in lists.iter().zip(expected) {
            prop_assert_eq!(values.items(*list), expected.as_slice());
        }
    }
}

/// A list that grows item by item is found without a scan of all lists with the same start.
#[test]
fn growing_lists_with_equal_starts_share_one_entry() {
    let mut values = Values::default();
    let frames: Vec<Value> = (0..2).map(|_| values.node(NodeKind::Tuple, &[]).unwrap().into()).collect();
    for _ in 0..1000 {
        let list = values.node(NodeKind::List, &[]).unwrap();
        values.extend(list, &frames[..1]).unwrap();
        values.extend(list, &frames[1..]).unwrap();
    }
    assert_eq!(values.shared.len(), 1);
}

/// Dicts with equal keys share them; one that gets more entries, or a key twice, keeps its own.
#[test]
fn dicts_are_packed_and_unpacked() {
    let mut values = Values::default();
    let [a, b] = ["a", "b"].map(|name| Value::text(values.strings.intern(name)));
    let numbers: Vec<Value> = [0, -1, 1 << 50, i128::MAX].map(|number| values.int(number)).into();
    let mut dicts = Vec::new();
    for number in &numbers {
        let dict = values.node(NodeKind::Dict, &[]).unwrap();
        values.extend(dict, &[a, *number, b, Value::NONE]).unwrap();
        dicts.push(dict);
    }
    for (dict, number) in dicts.iter().zip(&numbers) {
        assert_eq!(values.entries(*dict).collect::<Vec<_>>(), [(a, *number), (b, Value::NONE)]);
        assert_eq!((values.find(*dict, "a"), values.find(*dict, "c")), (Some(*number), None));
    }
    assert!(values.items.is_empty(), "all are packed");
    let c = Value::text(values.strings.intern("c"));
    values.extend(dicts[1], &[c, numbers[2], a, numbers[0]]).unwrap();
    let expected = [(a, numbers[1]), (b, Value::NONE), (c, numbers[2]), (a, numbers[0])];
    assert_eq!(values.entries(dicts[1]).collect::<Vec<_>>(), expected);
    assert_eq!(values.find(dicts[1], "a"), Some(numbers[0]));
    assert_eq!(values.find(dicts[2], "a"), Some(numbers[2]), "others stay what they were");
}

/// Equal lists of dicts share their items until one of them grows.
#[test]
fn equal_lists_share_their_items() {
    let mut values = Values::default();
    let key = Value::text(values.strings.intern("line"));
    let mut frame = |line: i128| {
        let line = values.int(line);
        Value::from(values.node(NodeKind::Dict, &[key, line]).unwrap())
    };
    let frames = [frame(1), frame(2)];
    let mut list = |items: &[Value]| {
        let list = values.node(NodeKind::List, &[]).unwrap();
        values.extend(list, items).unwrap();
        list
    };
    let lists = [list(&frames), list(&frames), list(&frames[..1])];
    assert_eq!(values.items_id(lists[0]), values.items_id(lists[1]));
    assert_ne!(values.items_id(lists[0]), values.items_id(lists[2]));
    assert_eq!(values.item_count(), 3 + 4, "items of two lists, keys and values of two dicts");
    values.extend(lists[0], &frames[..1]).unwrap();
    assert_eq!(values.items(lists[0]), [frames[0], frames[1], frames[0]]);
    assert_eq!(values.items(lists[1]), frames, "others stay what they were");
    assert_eq!(values.items(lists[2]), &frames[..1]);
}

/// A growing list takes memory for its own size, not for all its earlier positions.
#[test]
fn growing_lists_free_their_earlier_positions() {
    let mut values = Values::default();
    let list = values.node(NodeKind::List, &[]).unwrap();
    for iteration in 0..1000 {
        let other = values.node(NodeKind::Tuple, &[Value::NONE]).unwrap();
        values.extend(list, &[other.into(); 100]).unwrap();
        assert_eq!(values.items(list).len(), 100 * (iteration + 1));
    }
    assert!(values.memory() < 100_000 * 9 + 1000 * 40, "{}", values.memory());
    assert_eq!(values.item_count(), values.items.len() + values.items(list).len());
}

#[test]
fn nodes_take_eight_bytes() {
    assert_eq!(size_of::<Node>(), 8);
    for kind in [NodeKind::List, NodeKind::Tuple, NodeKind::Dict] {
        for storage in [Storage::Items, Storage::Long, Storage::Packed, Storage::Shared] {
            let node = Node::new(kind, storage, u32::MAX, MOST_ITEMS).unwrap();
            assert_eq!((node.kind(), node.storage(), node.start, node.count()), (kind, storage, u32::MAX, MOST_ITEMS));
        }
    }
    assert!(Node::new(NodeKind::List, Storage::Items, 0, MOST_ITEMS + 1).is_none());
}

#[test]
fn constants_differ() {
    let values = Values::default();
    assert_eq!(values.kind(Value::NONE), Kind::None);
    assert_eq!(values.kind(Value::bool(false)), Kind::Bool(false));
    assert_eq!(values.kind(Value::bool(true)), Kind::Bool(true));
}

#[test]
fn last_of_duplicate_keys_wins() {
    let mut values = Values::default();
    let key = Value::text(values.strings.intern("a"));
    let (one, two) = (values.int(1), values.int(2));
    let dict = values.node(NodeKind::Dict, &[key, one, key, two]).unwrap();
    assert_eq!(values.find(dict, "a"), Some(two));
    assert_eq!(values.find(dict, "b"), None);
}
