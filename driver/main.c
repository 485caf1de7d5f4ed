#include <stdio.h>
int main(void) { puts("mpc"); return 0; }
