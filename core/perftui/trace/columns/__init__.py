"""Operations on the columns of any trace: storing, nesting, and the compiled loops."""
