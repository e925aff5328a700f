//! Entries under keys that are never the same again: a key of an entry that is gone finds nothing.

/// Names an entry, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    serial: u32,
}

/// Entries; those of the past leave their places to others.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, entry: T) -> Key {
        if let Some(index) = self.free.pop() {
            let place = &mut self.entries[index as usize];
            place.1 = Some(entry);
            return Key { index, serial: place.0 };
        }
        self.entries.push((0, Some(entry)));
        Key { index: (self.entries.len() - 1) as u32, serial: 0 }
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        self.entries.get(key.index as usize).filter(|place| place.0 == key.serial)?.1.as_ref()
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.entries.get_mut(key.index as usize)?;
        if place.0 == key.serial { place.1.as_mut() } else { None }
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.entries.get_mut(key.index as usize).filter(|it| it.0 == key.serial)?;
        let entry = place.1.take()?;
        place.0 = place.0.wrapping_add(1);
        self.free.push(key.index);
        Some(entry)
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..).zip(&self.entries).filter_map(|(index, (serial, entry))| {
            Some((Key { index, serial: *serial }, entry.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_nothing_else() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!((slab.get(first).copied(), slab.remove(first)), (Some('a'), Some('a')));
        let second = slab.insert('b');
        assert_eq!(
            (slab.get(first).copied(), slab.remove(first), slab.get(second)),
            (None, None, Some(&'b'))
        );
        assert_eq!((slab.len(), slab.iter().count()), (1, 1));
    }
}
