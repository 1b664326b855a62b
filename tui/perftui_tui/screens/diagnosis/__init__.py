"""The Diagnosis screen: each finding, its evidence and its fixes."""
