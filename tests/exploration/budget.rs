//! Counts the troubles that may still happen in an exploration, so that the number of states is limited.

use std::{
    fmt::{self, Debug, Display},
    hash::Hash,
    marker::PhantomData,
};

/// A kind of trouble: an event that goes wrong, or a change by the user.
pub trait Kind: Copy + Debug + Eq + Hash + 'static {
    /// All kinds.
    const ALL: &'static [Self];

    /// The index in [`Self::ALL`].
    fn number(self) -> usize;

    fn name(self) -> &'static str;
}

/// Returns the kind of this name.
pub fn named<K: Kind>(name: &str) -> K {
    *K::ALL.iter().find(|kind| kind.name() == name).expect(name)
}

/// Defines an enum and the list of its variants, `ALL`.
macro_rules! listed {
    ($(#[$about:meta])* $visible:vis enum $name:ident { $($(#[$what:meta])* $variant:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visible enum $name {
            $($(#[$what])* $variant,)+
        }

        impl $name {
            $visible const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];
        }

        impl $crate::budget::Kind for $name {
            const ALL: &'static [Self] = &Self::ALL;

            fn number(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }
        }
    };
}
pub(crate) use listed;

/// The numbers of troubles that may still happen: of each of the `N` kinds, and in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget<K, const N: usize> {
    each: [u8; N],
    pub all: u8,
    kinds: PhantomData<K>,
}

impl<K: Kind, const N: usize> Budget<K, N> {
    pub fn new(all: u8, each: &[(K, u8)]) -> Self {
        let mut budget = Self { each: [0; N], all, kinds: PhantomData };
        for (kind, count) in each {
            budget.each[kind.number()] = *count;
        }
        budget
    }

    /// Returns how many troubles of this kind may still happen.
    pub fn of(&self, kind: K) -> u8 {
        self.each[kind.number()]
    }

    /// Returns this budget with one trouble of this kind less. `None` if no more may happen. Budgets whose total is
    /// zero are equal, so that states which differ only in troubles that cannot happen are the same.
    pub fn without(mut self, kind: K) -> Option<Self> {
        self.take(kind)?;
        self.all = self.all.checked_sub(1)?;
        Some(if self.all == 0 { Self::default() } else { self })
    }

    /// Subtracts one trouble of this kind. `None` if no more may happen. The total `all` is not changed.
    pub fn take(&mut self, kind: K) -> Option<()> {
        let left = &mut self.each[kind.number()];
        *left = left.checked_sub(1)?;
        Some(())
    }
}

impl<K: Kind, const N: usize> Default for Budget<K, N> {
    /// Returns a budget without any trouble.
    fn default() -> Self {
        Self::new(0, &[])
    }
}

impl<K: Kind, const N: usize> Display for Budget<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = K::ALL.iter().zip(self.each).filter(|(_, count)| *count > 0);
        let each: Vec<_> = each.map(|(kind, count)| format!("{count} {kind:?}")).collect();
        write!(f, "any {} of {}", self.all, each.join(", "))
    }
}
