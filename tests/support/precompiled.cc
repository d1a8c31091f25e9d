// Nothing of its own: a target needs a source, and this one's precompiled headers are those of all tests.
int main() { return 0; }
