#include "filter.h"

int clamp(int x, int low, int high) {
    if (x < low) {
        return low;
    }
    if (x > high) {
        return high;
    }
    return x;
}

int mean(const int *numbers, int count) {
    int sum = 0;
    if (count == 0) {
        return 0;
    }
    for (int i = 0; i < count; ++i) {
        sum += numbers[i];
    }
    return sum / count;
}
