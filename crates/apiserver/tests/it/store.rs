//! The store from outside: on disk, over restarts, with everything that can go wrong.

mod copies;
mod damage;
mod disk;
mod durability;
mod fixtures;
mod kill;
mod model;
mod opening;
mod transactions;
mod watching;
