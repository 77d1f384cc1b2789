//! Hostile resolvers, counted diallers, and real servers on loopback. Inside the crate, because the
//! proof that `send` and `dial` ask for can only be had from a gate, and because only here the
//! connect step can be replaced: nothing but loopback is ever dialled for real.

mod approval;
mod dialling;
mod fakes;
mod http;
mod serve;
mod tls;
