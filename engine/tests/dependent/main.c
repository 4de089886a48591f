int greet (void);

int main (void)
{
    return greet () == 40305 ? 0 : 1;
}
