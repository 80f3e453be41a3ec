//! The CustomResourceDefinitions of every kind that Windlass manages.
