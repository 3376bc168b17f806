//! Statements 6 and 12: origins that hang, drip, lie or break off.
