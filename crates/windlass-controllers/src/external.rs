//! Objects of providers, by contract: fetched, cloned from templates, watched.
