//! What is shown, and what keys do to it.

use windlass_controllers::fleet::ClusterView;
use windlass_engine::progress::Verdict;

use super::keys::Key;

/// So many rows are a page.
const PAGE: usize = 10;

/// What is shown.
pub(super) struct State {
    views: Vec<ClusterView>,
    /// Letters that rows must have; of no use while it is empty.
    pub(super) filter: String,
    /// Whether letters go into the filter.
    pub(super) is_typing: bool,
    /// Whether keys are explained.
    pub(super) has_help: bool,
    /// Why nothing can be shown yet.
    pub(super) trouble: Option<String>,
    /// The cluster that the cursor is on, by namespace and name.
    chosen: Option<(String, String)>,
    /// Whether that cluster is shown alone.
    is_open: bool,
}

impl State {
    /// Begins with all clusters, or with one.
    pub(super) fn new(one: Option<(String, String)>) -> Self {
        Self {
            views: Vec::new(),
            filter: String::new(),
            is_typing: false,
            has_help: false,
            trouble: None,
            is_open: one.is_some(),
            chosen: one,
        }
    }

    /// Takes in what clusters are like now. The cursor stays on its cluster, whatever comes and goes above it.
    pub(super) fn update(&mut self, mut views: Vec<ClusterView>, trouble: Option<String>) {
        // What needs somebody's attention comes first, then what moves.
        let order = |view: &ClusterView| match view.described.progress.verdict {
            Verdict::Stalled => 0,
            Verdict::Waiting => 1,
            Verdict::Progressing => 2,
            Verdict::UpToDate => 3,
        };
        views.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| key(a).cmp(&key(b))));
        self.views = views;
        self.trouble = trouble;
    }

    /// The clusters that the filter lets through.
    pub(super) fn shown(&self) -> Vec<&ClusterView> {
        let wanted = self.filter.to_lowercase();
        let matches = |view: &&ClusterView| {
            let described = &view.described;
            let waiting = described.waiting_on.as_ref().map(|waiting| waiting.wait.what.as_str());
            let texts = [
                Some(described.namespace.as_str()),
                Some(described.name.as_str()),
                described.class.as_deref(),
                described.version.as_deref(),
                waiting.filter(|_| described.upgrade.is_some()),
            ];
            let verdict = described.progress.verdict.to_string();
            let mut texts = texts.into_iter().flatten().chain([verdict.as_str()]);
            texts.any(|text| text.to_lowercase().contains(&wanted))
        };
        self.views.iter().filter(matches).collect()
    }

    /// How many clusters there are.
    pub(super) fn count(&self) -> usize {
        self.views.len()
    }

    /// The row that the cursor is on.
    pub(super) fn row(&self) -> usize {
        let chosen = self.chosen.as_ref();
        let place = self.shown().iter().position(|view| chosen.is_some_and(|chosen| *chosen == key(view)));
        place.unwrap_or_default()
    }

    /// The cluster that is shown alone, by its name; and itself, if it exists.
    pub(super) fn open(&self) -> Option<(&(String, String), Option<&ClusterView>)> {
        let chosen = self.chosen.as_ref().filter(|_| self.is_open)?;
        Some((chosen, self.views.iter().find(|view| key(view) == *chosen)))
    }

    /// A key was pressed; false ends it.
    pub(super) fn press(&mut self, pressed: Key) -> bool {
        if pressed == Key::Interrupt {
            return false;
        }
        if self.has_help {
            self.has_help = false;
            return true;
        }
        if self.is_typing {
            match pressed {
                Key::Letter(letter) => self.filter.push(letter),
                Key::Erase => drop(self.filter.pop()),
                Key::Enter => self.is_typing = false,
                Key::Back => (self.is_typing, self.filter) = (false, String::new()),
                _ => {}
            }
            return true;
        }
        match pressed {
            Key::Letter('q') => return false,
            Key::Letter('?') => self.has_help = true,
            Key::Letter('/') => (self.is_typing, self.is_open) = (true, false),
            Key::Up | Key::Letter('k') => self.go(|row| row.saturating_sub(1)),
            Key::Down | Key::Letter('j') => self.go(|row| row + 1),
            Key::PageUp => self.go(|row| row.saturating_sub(PAGE)),
            Key::PageDown => self.go(|row| row + PAGE),
            Key::Enter => {
                self.go(|row| row);
                self.is_open = self.chosen.is_some();
            }
            Key::Back if self.is_open => self.is_open = false,
            Key::Back => self.filter.clear(),
            Key::Erase if self.is_open => self.is_open = false,
            _ => {}
        }
        true
    }

    /// Moves the cursor; with a cluster open, to the next cluster.
    fn go(&mut self, to: impl Fn(usize) -> usize) {
        let shown = self.shown();
        let row = to(self.row()).min(shown.len().saturating_sub(1));
        self.chosen = shown.get(row).map(|view| key(view)).or_else(|| self.chosen.clone());
    }
}

fn key(view: &ClusterView) -> (String, String) {
    (view.described.namespace.clone(), view.described.name.clone())
}
