//! ExtensionConfig: discovery, CA injection, conditions.
