/* Gives the harness the files that the command line names, without libFuzzer. */
#include <stdint.h>
#include <stdio.h>

enum { INPUT_MAX = 1 << 16 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t data[INPUT_MAX];
    LLVMFuzzerInitialize(&argc, &argv);
    for (int index = 1; index < argc; index++) {
        FILE *file = fopen(argv[index], "rb");
        if (file == NULL) {
            perror(argv[index]);
            return 2;
        }
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        fprintf(stderr, "%s\n", argv[index]); /* the last one is that of a failure */
        LLVMFuzzerTestOneInput(data, size);
    }
    return 0;
}
