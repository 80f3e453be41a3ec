//! What a provider's object says, by contract: no provider kind is known here.
