// A program that begins as causeway does and is built for every x86-64 processor.
#include <cstdio>

int main() { std::puts("for every processor"); }
