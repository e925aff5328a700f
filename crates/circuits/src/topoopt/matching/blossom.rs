//! Blossoms: odd cycles of even and odd vertices, shrunk to one, and undone again.

use super::{Label, NONE, Search};

impl Search {
    /// The vertices of a blossom.
    fn leaves(&self, blossom: usize) -> Vec<usize> {
        let mut leaves = Vec::new();
        let mut open = vec![blossom];
        while let Some(b) = open.pop() {
            match b < self.vertices {
                true => leaves.push(b),
                false => open.extend(&self.children[b]),
            }
        }
        leaves
    }

    /// Labels the outermost blossom of `w`, reached by the edge with far end `end`; an odd one's
    /// mate becomes even.
    pub(super) fn reach(&mut self, w: usize, label: Label, end: usize) {
        let (mut w, mut label, mut end) = (w, label, end);
        loop {
            let b = self.top[w];
            for at in [w, b] {
                self.label[at] = label;
                self.label_end[at] = end;
                self.best[at] = NONE;
            }
            if label == Label::Even {
                let leaves = self.leaves(b);
                self.queue.extend(leaves);
                return;
            }
            let mate = self.mate[self.base[b]];
            (w, label, end) = (self.at[mate], Label::Even, mate ^ 1);
        }
    }

    /// Traces back from two even vertices in turn: the base of the new blossom where the paths meet,
    /// or [`NONE`] if they end in two unmatched vertices.
    pub(super) fn meeting(&mut self, v: usize, w: usize) -> usize {
        let (mut v, mut w) = (v, w);
        let mut crumbs = Vec::new();
        let mut base = NONE;
        while v != NONE {
            let b = self.top[v];
            if self.label[b] == Label::Crumb {
                base = self.base[b];
                break;
            }
            crumbs.push(b);
            self.label[b] = Label::Crumb;
            v = match self.label_end[b] {
                NONE => NONE,
                end => {
                    let odd = self.top[self.at[end]];
                    self.at[self.label_end[odd]]
                }
            };
            if w != NONE {
                (v, w) = (w, v);
            }
        }
        for b in crumbs {
            self.label[b] = Label::Even;
        }
        base
    }

    /// Makes an even blossom of the paths from both ends of `edge` back to `base`.
    pub(super) fn shrink(&mut self, base: usize, edge: usize) {
        let b = self.unused.pop().expect("n vertices nest in fewer than n blossoms");
        let root = self.top[base];
        let (mut children, mut cycle) = (Vec::new(), Vec::new());
        let mut child = self.top[self.at[2 * edge]];
        while child != root {
            children.push(child);
            cycle.push(self.label_end[child]);
            child = self.top[self.at[self.label_end[child]]];
        }
        children.push(root);
        children.reverse();
        cycle.reverse();
        cycle.push(2 * edge);
        let mut child = self.top[self.at[2 * edge + 1]];
        while child != root {
            children.push(child);
            cycle.push(self.label_end[child] ^ 1);
            child = self.top[self.at[self.label_end[child]]];
        }
        for &child in &children {
            self.parent[child] = b;
        }
        self.base[b] = base;
        self.parent[b] = NONE;
        self.label[b] = Label::Even;
        self.label_end[b] = self.label_end[root];
        self.dual[b] = 0;
        self.children[b] = children;
        self.cycle[b] = cycle;
        for v in self.leaves(b) {
            if self.label[self.top[v]] == Label::Odd {
                self.queue.push(v); // it was odd, and is even now
            }
            self.top[v] = b;
        }
        self.gather_best_edges(b);
    }

    /// Merges the children's edges of least slack to other even blossoms.
    fn gather_best_edges(&mut self, b: usize) {
        let mut best_to = vec![NONE; 2 * self.vertices];
        for child in self.children[b].clone() {
            let edges = self.best_edges[child].take().unwrap_or_else(|| {
                let edges = self.leaves(child).into_iter().flat_map(|v| &self.edges[v]);
                edges.map(|edge| edge.far / 2).collect()
            });
            for edge in edges {
                let (i, j) = (self.top[self.at[2 * edge]], self.top[self.at[2 * edge + 1]]);
                let other = if j == b { i } else { j };
                let outside = other != b && self.label[other] == Label::Even;
                if outside && self.closer(edge, best_to[other]) {
                    best_to[other] = edge;
                }
            }
            self.best[child] = NONE;
        }
        best_to.retain(|&edge| edge != NONE);
        self.best[b] = NONE;
        for &edge in &best_to {
            if self.closer(edge, self.best[b]) {
                self.best[b] = edge;
            }
        }
        self.best_edges[b] = Some(best_to);
    }

    /// Undoes a blossom. At the end of a stage, those inside without dual too; within one, an odd
    /// blossom's children are labelled again.
    pub(super) fn expand(&mut self, b: usize, end_of_stage: bool) {
        let children = std::mem::take(&mut self.children[b]);
        let cycle = std::mem::take(&mut self.cycle[b]);
        for &child in &children {
            self.parent[child] = NONE;
            if end_of_stage && child >= self.vertices && self.dual[child] == 0 {
                self.expand(child, true);
            } else {
                for v in self.leaves(child) {
                    self.top[v] = child;
                }
            }
        }
        if !end_of_stage && self.label[b] == Label::Odd {
            self.relabel(b, &children, &cycle);
        }
        self.label[b] = Label::Unreached;
        self.label_end[b] = NONE;
        self.base[b] = NONE;
        self.best[b] = NONE;
        self.best_edges[b] = None;
        self.unused.push(b);
    }

    /// Labels the children of an expanded odd blossom: odd and even in turn on the even way from
    /// where it was entered to its base; the others as they are reached from outside.
    fn relabel(&mut self, b: usize, children: &[usize], cycle: &[usize]) {
        let entry = self.top[self.at[self.label_end[b] ^ 1]];
        let walk = Walk::from(children, entry);
        let mut j = walk.start;
        let mut end = self.label_end[b];
        while j != 0 {
            self.reach(self.at[end ^ 1], Label::Odd, end);
            j += walk.step;
            end = walk.edge(cycle, j);
            j += walk.step;
        }
        // The base stays odd; its mate has its label.
        let base = walk.child(children, j);
        for at in [self.at[end ^ 1], base] {
            self.label[at] = Label::Odd;
            self.label_end[at] = end;
        }
        self.best[base] = NONE;
        j += walk.step;
        while walk.child(children, j) != entry {
            let child = walk.child(children, j);
            j += walk.step;
            if self.label[child] == Label::Even {
                continue; // labelled by a neighbour just now
            }
            let reached = |&v: &usize| self.label[v] != Label::Unreached;
            if let Some(v) = self.leaves(child).into_iter().find(reached) {
                self.reach(v, Label::Odd, self.label_end[v]);
            }
        }
    }

    /// Matches `edge`, and alternately unmatches and matches the paths from both its ends.
    pub(super) fn augment(&mut self, edge: usize) {
        for end in [2 * edge, 2 * edge + 1] {
            let (mut v, mut far) = (self.at[end], end ^ 1);
            loop {
                let even = self.top[v];
                self.rebase(even, v);
                self.mate[v] = far;
                if self.label_end[even] == NONE {
                    break;
                }
                let odd = self.top[self.at[self.label_end[even]]];
                let back = self.label_end[odd];
                let inner = self.at[back ^ 1];
                self.rebase(odd, inner);
                self.mate[inner] = back;
                (v, far) = (self.at[back], back ^ 1);
            }
        }
    }

    /// Makes `v` the base of a blossom that holds it, by swapping matched and unmatched edges on the
    /// even way from there to the old base.
    fn rebase(&mut self, b: usize, v: usize) {
        if b < self.vertices {
            return;
        }
        let mut child = v;
        while self.parent[child] != b {
            child = self.parent[child];
        }
        self.rebase(child, v);
        let children = std::mem::take(&mut self.children[b]);
        let cycle = std::mem::take(&mut self.cycle[b]);
        let walk = Walk::from(&children, child);
        let mut j = walk.start;
        while j != 0 {
            j += walk.step;
            let end = walk.edge(&cycle, j);
            self.rebase(walk.child(&children, j), self.at[end]);
            j += walk.step;
            self.rebase(walk.child(&children, j), self.at[end ^ 1]);
            self.mate[self.at[end]] = end ^ 1;
            self.mate[self.at[end ^ 1]] = end;
        }
        (self.children[b], self.cycle[b]) = (children, cycle);
        let position = walk.start.rem_euclid(walk.len) as usize;
        self.children[b].rotate_left(position);
        self.cycle[b].rotate_left(position);
        self.base[b] = v;
    }
}

/// The way around a blossom's cycle from a child to the base that takes an even number of edges.
struct Walk {
    start: isize,
    step: isize,
    len: isize,
}

impl Walk {
    fn from(children: &[usize], child: usize) -> Walk {
        let at = children.iter().position(|&c| c == child);
        let at = at.expect("a child of its parent") as isize;
        let len = children.len() as isize;
        match at % 2 {
            0 => Walk { start: at, step: -1, len },
            _ => Walk { start: at - len, step: 1, len },
        }
    }

    fn child(&self, children: &[usize], at: isize) -> usize {
        children[at.rem_euclid(self.len) as usize]
    }

    /// The end, at child `at`, of the edge to the next child on the way.
    fn edge(&self, cycle: &[usize], at: isize) -> usize {
        match self.step {
            1 => cycle[at.rem_euclid(self.len) as usize],
            _ => cycle[(at - 1).rem_euclid(self.len) as usize] ^ 1,
        }
    }
}
