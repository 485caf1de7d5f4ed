/* A shared object that is no plugin: it exports nothing that mpc asks for. */
int mpc_no_plugin(void);
int mpc_no_plugin(void) { return 0; }
