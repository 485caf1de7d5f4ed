/* The program `mpc`. Everything is in the library, so that tests can link it. */
#include "driver/main_entry.h"

int main(int argc, char **argv) { return mpc_main(argc, argv); }
